// The command `login` of tests/security/clients/README.md, with kafkajs.
'use strict'

const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const PAUSE_MS = 100
const pause = () => new Promise(resolve => setTimeout(resolve, PAUSE_MS))

// A token without a signature, valid for life_ms.
function token(login) {
  const end = Date.now() + Number(login.life_ms)
  const claims = { sub: login.user, iat: Math.min(Date.now(), end - 1000) / 1000, exp: end / 1000 }
  const encoded = section => Buffer.from(JSON.stringify(section)).toString('base64url')
  return { value: `${encoded({ alg: 'none' })}.${encoded(claims)}.` }
}

function settings(login) {
  const made = {
    clientId: 'login',
    brokers: [login.bootstrap],
    connectionTimeout: Number(login.timeout_ms),
    authenticationTimeout: Number(login.timeout_ms),
    requestTimeout: Number(login.timeout_ms),
    reauthenticationThreshold: 1000,
    retry: { retries: 0 },
    logLevel: logLevel.NOTHING,
  }
  if (login.protocol.endsWith('SSL')) {
    const file = name => (login[name] ? fs.readFileSync(login[name]) : undefined)
    made.ssl = { ca: [file('authority')], cert: file('certificate'), key: file('key') }
  }
  if (login.mechanism === 'OAUTHBEARER') {
    made.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => token(login) }
  } else if (login.mechanism) {
    made.sasl = { mechanism: login.mechanism, username: login.user, password: login.password }
  }
  return made
}

async function serve(login) {
  const kafka = new Kafka(settings(login))
  const producer = kafka.producer()
  const end = Date.now() + Number(login.stay_ms)
  let written
  try {
    await producer.connect()
    do {
      written = await producer.send({ topic: login.topic, messages: [{ partition: 0, value: Buffer.from([7]) }] })
      await pause()
    } while (Date.now() < end)
  } finally {
    await producer.disconnect()
  }
  const admin = kafka.admin()
  try {
    await admin.connect()
    const [listed] = await admin.fetchTopicOffsets(login.topic)
    if (Number(listed.high) <= Number(written[0].baseOffset)) throw new Error('the record is not there')
  } finally {
    await admin.disconnect()
  }
}

// The name of the innermost error.
function kind(error) {
  const cause = error.cause || error.originalError
  return cause && cause.name ? kind(cause) : `${error.name}${error.code ? ` ${error.code}` : ''}`
}

async function outcome(query) {
  try {
    await serve(Object.fromEntries(new URLSearchParams(query)))
    return { kind: 'served', text: '' }
  } catch (error) {
    return { kind: kind(error), text: String(error) }
  }
}

module.exports = { outcome }
