// Starts a broker with Testcontainers, produces three records and consumes them with kafkajs.
'use strict'

const { KafkaContainer } = require('@testcontainers/kafka')
const { Kafka, logLevel } = require('kafkajs')

async function main() {
  const container = await new KafkaContainer('odradek:7.9.0').start()
  try {
    await greet(`${container.getHost()}:${container.getMappedPort(9093)}`)
  } finally {
    await container.stop()
  }
}

async function greet(broker) {
  const kafka = new Kafka({ brokers: [broker], logLevel: logLevel.ERROR })
  const producer = kafka.producer({ allowAutoTopicCreation: true })
  await producer.connect()
  for (const value of ['hello', 'from', 'Odradek']) {
    await producer.send({ topic: 'greetings', messages: [{ value }] })
  }
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: 'examples-node' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['greetings'], fromBeginning: true })
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
