// A member of a group by kafkajs, behind the command `group` of tests/clients/README.md.
//
// The library tells its generation only with heartbeats and commits: the end of a join is seen by
// wrapping the method that joins. It has one assignor, so that `range` is written here, by the
// interface that it offers for that.
'use strict'

const { AssignerProtocol, PartitionAssigners } = require('kafkajs')
const ConsumerGroup = require('kafkajs/src/consumer/consumerGroup')

const { MemberMetadata, MemberAssignment } = AssignerProtocol
const HEARTBEATS_PER_SESSION = 8
const REBALANCE_TIMEOUT_MS = 30000

const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  async assign({ members, topics }) {
    const names = members.map(({ memberId }) => memberId).sort()
    const given = new Map(names.map(name => [name, {}]))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(one => one.partitionId).sort((a, b) => a - b)
      const share = Math.floor(partitions.length / names.length)
      const longer = partitions.length % names.length
      names.forEach((name, index) => {
        const first = index * share + Math.min(index, longer)
        given.get(name)[topic] = partitions.slice(first, first + share + (index < longer ? 1 : 0))
      })
    }
    return names.map(memberId => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: 0, assignment: given.get(memberId) }),
    }))
  },
  protocol({ topics }) {
    return { name: 'range', metadata: MemberMetadata.encode({ version: 0, topics }) }
  },
})

// The library's name for it differs from everybody else's.
const roundRobin = options => {
  const made = PartitionAssigners.roundRobin(options)
  return {
    ...made,
    name: 'roundrobin',
    protocol: ({ topics }) => ({ name: 'roundrobin', metadata: MemberMetadata.encode({ version: 0, topics }) }),
  }
}

const ASSIGNORS = { range, roundrobin: roundRobin }

/** Runs until a line says `leave`; `nextLine` is a function that returns a promise of a line. */
async function live(kafka, [topic, groupId, assignor, , sessionMs], nextLine, say) {
  const owned = new Set()
  const positions = new Map()
  let group = null
  const sorted = numbers => [...numbers].sort((a, b) => a - b)
  const sayOwned = (event, partitions, generation, member) =>
    say({ event, partitions: sorted(partitions), owned: sorted(owned), generation, member })

  const revoke = () => {
    if (owned.size === 0) return
    const taken = [...owned]
    owned.clear()
    positions.clear()
    sayOwned('revoked', taken, group.generationId, group.memberId || '')
  }
  const joinAndSync = ConsumerGroup.prototype.joinAndSync
  ConsumerGroup.prototype.joinAndSync = async function () {
    group = this
    revoke()
    await joinAndSync.call(this)
    const given = this.assigned().flatMap(one => (one.topic === topic ? one.partitions : []))
    given.forEach(partition => owned.add(partition))
    sayOwned('assigned', given, this.generationId, this.memberId)
  }

  const consumer = kafka.consumer({
    groupId,
    partitionAssigners: [ASSIGNORS[assignor]],
    sessionTimeout: Number(sessionMs),
    rebalanceTimeout: REBALANCE_TIMEOUT_MS,
    heartbeatInterval: Math.floor(Number(sessionMs) / HEARTBEATS_PER_SESSION),
    maxWaitTimeInMs: 100,
    retry: { initialRetryTime: 50, maxRetryTime: 500 },
  })
  const commit = async (offsets, act) => {
    const committed = Object.fromEntries(offsets)
    const wanted = offsets.map(([partition, offset]) => ({ topic, partition, offset: String(offset) }))
    if (offsets.length === 0) return say({ event: 'refused', error: 'it has nothing to commit', committed })
    try {
      await act(wanted)
      say({ event: 'committed', committed, generation: group.generationId })
    } catch (error) {
      say({ event: 'refused', error: String(error), committed })
      throw error
    }
  }
  try {
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      // A refusal by commitOffsets would end the consumer here; this way it joins again.
      eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary }) => {
        const offsets = batch.messages.map(one => Number(one.offset))
        say({ event: 'read', partition: batch.partition, offsets })
        positions.set(batch.partition, offsets[offsets.length - 1] + 1)
        await commit([[batch.partition, offsets[offsets.length - 1] + 1]], partitions =>
          commitOffsetsIfNecessary({ topics: [{ topic, partitions }] })
        )
        resolveOffset(batch.messages[batch.messages.length - 1].offset)
      },
    })
    for (let line = await nextLine(); line !== 'leave' && line !== ''; line = await nextLine()) {
      await commit([...positions], wanted => consumer.commitOffsets(wanted)).catch(() => {})
    }
  } finally {
    await consumer.disconnect()
    ConsumerGroup.prototype.joinAndSync = joinAndSync
  }
}

module.exports = { live }
