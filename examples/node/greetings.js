// Produces three records and consumes them with kafkajs.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const topic = 'greetings-node'
const kafka = new Kafka({ brokers: [process.argv[2] || '127.0.0.1:9092'], logLevel: logLevel.ERROR })

async function main() {
  const producer = kafka.producer({ allowAutoTopicCreation: true })
  await producer.connect()
  for (const value of ['hello', 'from', 'Odradek']) {
    await producer.send({ topic, messages: [{ value, partition: 0 }] })
  }
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: 'examples-node' })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer
      .run({
        eachMessage: async ({ message }) => {
          console.log(message.offset, message.value.toString())
          if (message.offset === '2') resolve()
        },
      })
      .catch(reject)
  })
  await consumer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
