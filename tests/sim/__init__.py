"""Whole brokers of this code in one process, on virtual time, driven by one seed.

world           virtual time, randomness, what is noted
loop            the event loop of one process
network         hosts, links and connections, in place of sockets
ensemble        the coordination service, and the broker's session with it
process         a broker: the product's `Node` on all of these, and its disk
clients         producers and consumers
transactions    transactional clients
transaction_history  what they have done, and what may be read of it
transactional_workload  all of them, and the readers of what they commit
group_members   members of consumer groups, some of them static
consumer_members  those of the new protocol (KIP-848)
group_history   what coordinators have responded to them, and what the log says
group_workload  all of them, and when their groups are stable
plan            what a seed decides: the cluster, and when which fault happens
faults          how faults are made
script          waiting and cutting, for scripted faults
failovers       two failovers in a row
lagging_followers  a follower that does not hear its leader leaves the in-sync replicas
controller_moves  a controller is deposed within a change of in-sync replicas
transaction_ends  what strikes while a transaction ends
administration  topics that come and go, reassignments
state_history   what is written into the coordination service, against what was there before
stored_batches  the batches in a log, and what producers' records come to
compacted_table  what compaction may remove
log_check       what a log must be
cleaning_worker  the worker that cleans logs, in place of a process
killed_copies   a copy of a compacted log is killed with its leader
oracle          what must hold after each event, and in the end
simulation      puts these together and runs one seed: `python -m tests.sim.simulation SEED`
seeds           many seeds, in forked processes
campaign        new seeds for so many minutes; `make campaign-sim`
planted         bugs that the simulator must find
planted_transactions  those of transactions
planted_groups  those of groups
find_planted    says how many seeds it takes to find each of them

One history in eight has transactional clients, another one has consumer groups; of the others one
in four has compacted topics, with tombstones, whose logs are cleaned.

Not simulated: static members of the new protocol, the deletion of tombstones, retention, clients
that are cut off, a coordination service that fails; transactions while clocks are more than a
second wrong.
"""
