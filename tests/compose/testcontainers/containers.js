// Starts a broker in a network, and stops it at the end of the input.
'use strict'

const { KafkaContainer } = require('@testcontainers/kafka')
const { once } = require('node:events')
const { Network } = require('testcontainers')

async function main(name) {
  const network = await new Network().start()
  let kafka = new KafkaContainer('odradek:7.9.0').withNetwork(network).withNetworkAliases('kafka')
  if (name === 'kraft') kafka = kafka.withKraft()
  const began = performance.now()
  const container = await kafka.start()
  const readyMs = Math.round(performance.now() - began)
  console.log(`${container.getHost()}:${container.getMappedPort(9093)}`, network.getName(), readyMs)
  process.stdin.resume()
  await once(process.stdin, 'end')
  await container.stop()
  await network.stop()
}

main(process.argv[2]).catch(error => {
  console.error(error)
  process.exit(1)
})
