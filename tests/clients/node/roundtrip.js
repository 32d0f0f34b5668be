// kafkajs behind the line protocol of tests/clients/README.md.
//
// Its consumers always join a group: reading a partition alone goes through the library's own cluster
// and broker objects, so that its Fetch encoding and decoding are used.
'use strict'

const readline = require('node:readline')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const consoleLog = require('kafkajs/src/loggers/console')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')
const groupMember = require('./group_member')
const login = require('./login')

const WAIT_MS = 30000
const BROKER_CODES = { 0: 0, 1: 1, all: -1 }
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

const say = value => process.stdout.write(JSON.stringify(value) + '\n')
const bytes = word => (word === '-' ? null : Buffer.from(word.slice(1), 'hex'))
const hex = buffer => (buffer === null || buffer === undefined ? null : buffer.toString('hex'))

function parseHeaders(word) {
  const headers = {}
  if (word === '-') return headers
  for (const one of word.split(',')) {
    const colon = one.indexOf(':')
    const name = one.slice(0, colon)
    const value = bytes(one.slice(colon + 1))
    headers[name] = name in headers ? [].concat(headers[name], value) : value
  }
  return headers
}

function flatHeaders(headers) {
  return Object.entries(headers || {}).flatMap(([name, values]) =>
    [].concat(values).map(value => [name, hex(value)])
  )
}

class RoundTrip {
  constructor(bootstrap) {
    this.bootstrap = bootstrap
    this.kafka = new Kafka({
      clientId: 'roundtrip',
      brokers: bootstrap.split(','),
      connectionTimeout: WAIT_MS,
      logLevel: logLevel.NOTHING,
    })
  }

  async withAdmin(act) {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      return await act(admin)
    } finally {
      await admin.disconnect()
    }
  }

  async create(topic, partitions) {
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1 }]
    await this.withAdmin(admin => admin.createTopics({ topics, waitForLeaders: true }))
  }

  async produce([topic, codec, acks, idempotent], records) {
    const producer = this.kafka.producer({ idempotent: idempotent === 'true' })
    await producer.connect()
    try {
      const appended = await producer.send({
        topic,
        acks: BROKER_CODES[acks],
        compression: CompressionTypes[CODECS[codec]],
        messages: records,
      })
      const next = new Map((appended || []).map(one => [one.partition, Number(one.baseOffset)]))
      for (const { partition } of records) {
        const offset = next.get(partition)
        say({ partition, offset: offset === undefined ? -1 : offset })
        if (offset !== undefined) next.set(partition, offset + 1)
      }
    } finally {
      await producer.disconnect()
    }
  }

  async transact(id, topic, count, outcome) {
    const producer = this.kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const transaction = await producer.transaction()
      const messages = []
      for (let number = 0; number < count; number++) {
        messages.push({ partition: 0, value: `${id}-${outcome}-${number}` })
      }
      await transaction.send({ topic, messages })
      if (outcome === 'commit') await transaction.commit()
      else await transaction.abort()
    } finally {
      await producer.disconnect()
    }
  }

  async position(topic, partition, start) {
    if (start.startsWith('offset:')) return Number(start.slice(7))
    const listed = await this.withAdmin(admin =>
      start.startsWith('time:')
        ? admin.fetchTopicOffsetsByTimestamp(topic, Number(start.slice(5)))
        : admin.fetchTopicOffsets(topic)
    )
    const found = listed.find(one => one.partition === partition)
    if (start === 'earliest') return Number(found.low)
    return Number(start === 'latest' ? found.high : found.offset)
  }

  async consume(topic, partition, start, count) {
    let offset = await this.position(topic, partition, start)
    say({ position: offset })
    if (count === 0) return
    const cluster = new Cluster({
      logger: createLogger({ level: logLevel.NOTHING, logCreator: consoleLog }),
      socketFactory: socketFactory(),
      brokers: this.bootstrap.split(','),
      clientId: 'roundtrip',
      connectionTimeout: WAIT_MS,
      metadataMaxAge: 300000,
      offsets: new Map(),
      isolationLevel: 0,
    })
    await cluster.connect()
    try {
      await cluster.addTargetTopic(topic)
      const { leader } = cluster.findTopicPartitionMetadata(topic).find(one => one.partitionId === partition)
      const broker = await cluster.findBroker({ nodeId: leader })
      const deadline = Date.now() + WAIT_MS
      for (let seen = 0; seen < count; ) {
        if (Date.now() > deadline) throw new Error(`only ${seen} of ${count} records came`)
        const wanted = [{ partition, fetchOffset: offset, maxBytes: 1 << 20 }]
        const response = await broker.fetch({
          replicaId: -1,
          isolationLevel: 0,
          maxWaitTime: 200,
          topics: [{ topic, partitions: wanted }],
        })
        for (const message of response.responses[0].partitions[0].messages) {
          if (Number(message.offset) < offset || seen === count) continue
          offset = Number(message.offset) + 1
          seen += 1
          say({
            partition,
            offset: Number(message.offset),
            timestamp: Number(message.timestamp),
            key: hex(message.key),
            value: hex(message.value),
            headers: flatHeaders(message.headers),
          })
        }
      }
    } finally {
      await cluster.disconnect()
    }
  }
}

async function main(bootstrap) {
  await zstd.init()
  const client = new RoundTrip(bootstrap)
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  for (let step = await lines.next(); !step.done; step = await lines.next()) {
    const [command, ...words] = step.value.split(' ')
    try {
      if (command === 'create') await client.create(words[0], Number(words[1]))
      else if (command === 'produce') {
        const records = []
        for (let left = Number(words[4]); left > 0; left -= 1) {
          const [partition, timestamp, key, value, headers] = (await lines.next()).value.split(' ')
          records.push({
            partition: Number(partition),
            timestamp,
            key: bytes(key),
            value: bytes(value),
            headers: parseHeaders(headers),
          })
        }
        await client.produce(words, records)
      } else if (command === 'consume') {
        await client.consume(words[0], Number(words[1]), words[2], Number(words[3]))
      } else if (command === 'transact') {
        await client.transact(words[0], words[1], Number(words[2]), words[3])
      } else if (command === 'login') {
        say(await login.outcome(words[0]))
      } else if (command === 'group') {
        const nextLine = async () => ((await lines.next()).value ?? '')
        await groupMember.live(client.kafka, words, nextLine, say)
      } else throw new Error(`unknown command ${command}`)
      say({ done: true })
    } catch (error) {
      say({ error: String(error.stack || error) })
    }
  }
}

if (process.argv[2] !== '--bootstrap' || process.argv.length !== 4) {
  process.stderr.write('usage: roundtrip.js --bootstrap HOST:PORT[,...]\n')
  process.exit(2)
}
main(process.argv[3])
