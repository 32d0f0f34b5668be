// A test with a broker of its own: node --test (odradek is on the PATH).
'use strict'

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { after, before, test } = require('node:test')
const { setTimeout: pause } = require('node:timers/promises')
const { Kafka, logLevel } = require('kafkajs')

let folder, broker, bootstrapServers

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'kafka-'))
  const ready = path.join(folder, 'ready')
  const words = ['start', '--ephemeral', '--port', '0', '--ready-file', ready, '--stop-at-end-of-input']
  broker = spawn('odradek', words, { stdio: ['pipe', 'ignore', 'inherit'] })
  while (!fs.existsSync(ready)) {
    if (broker.exitCode !== null) throw new Error(`odradek ended with ${broker.exitCode}`)
    await pause(10)
  }
  bootstrapServers = /^bootstrap_servers=(.*)$/m.exec(fs.readFileSync(ready, 'utf8'))[1]
})

after(async () => {
  const ended = new Promise(resolve => broker.once('exit', resolve))
  broker.stdin.end()
  await ended
  fs.rmSync(folder, { recursive: true })
})

test('an order is stored', async () => {
  const kafka = new Kafka({ brokers: [bootstrapServers], logLevel: logLevel.ERROR })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 1 }] })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'orders', messages: [{ value: 'one' }] })
  await producer.disconnect()
  const [{ high }] = await admin.fetchTopicOffsets('orders')
  await admin.disconnect()
  assert.strictEqual(high, '1')
})
