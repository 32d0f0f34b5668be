// Starts a broker in a network, or one with a listener for users, and stops it at the end of the input.
'use strict'

const { KafkaContainer } = require('@testcontainers/kafka')
const { once } = require('node:events')
const { readFileSync } = require('node:fs')
const { Network } = require('testcontainers')

// The key store and its password are those of the test.
const secure = {
  port: 9096,
  sasl: { mechanism: 'SCRAM-SHA-512', user: { name: 'alice', password: 'alice-secret' } },
  keystore: { content: process.env.KEY_STORE && readFileSync(process.env.KEY_STORE), passphrase: 'store-password' }
}

async function main(name) {
  if (name.startsWith('sasl')) {
    const module = new KafkaContainer('odradek:7.9.0').withSaslSslListener(secure)
    if (name === 'sasl-kraft') module.withKraft()
    const container = await module.start()
    await served(container, [`${container.getHost()}:${container.getMappedPort(secure.port)}`])
    return
  }
  const network = await new Network().start()
  let kafka = new KafkaContainer('odradek:7.9.0').withNetwork(network).withNetworkAliases('kafka')
  if (name === 'kraft') kafka = kafka.withKraft()
  const began = performance.now()
  const container = await kafka.start()
  const readyMs = Math.round(performance.now() - began)
  await served(container, [`${container.getHost()}:${container.getMappedPort(9093)}`, network.getName(), readyMs])
  await network.stop()
}

async function served(container, words) {
  console.log(...words)
  process.stdin.resume()
  await once(process.stdin, 'end')
  await container.stop()
}

main(process.argv[2]).catch(error => {
  console.error(error)
  process.exit(1)
})
