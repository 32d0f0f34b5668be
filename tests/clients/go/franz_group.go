package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (f franz) live(wanted groupWanted, lines <-chan string) error {
	state := newMember()
	name := func(client *kgo.Client) (int32, string) {
		id, generation := client.GroupMetadata()
		return generation, id
	}
	taken := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			generation, id := name(client)
			state.taken(event, partitions[wanted.topic], generation, id)
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(addresses(f.bootstrap)...),
		kgo.ConsumerGroup(wanted.group),
		kgo.ConsumeTopics(wanted.topic),
		kgo.Balancers(map[string]kgo.GroupBalancer{
			"range":              kgo.RangeBalancer(),
			"roundrobin":         kgo.RoundRobinBalancer(),
			"cooperative-sticky": kgo.CooperativeStickyBalancer(),
			"consumer":           kgo.StickyBalancer(),
		}[wanted.assignor]),
		kgo.SessionTimeout(wanted.session),
		kgo.HeartbeatInterval(wanted.heartbeat()),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			generation, id := name(client)
			state.assigned(partitions[wanted.topic], generation, id)
		}),
		kgo.OnPartitionsRevoked(taken("revoked")),
		kgo.OnPartitionsLost(taken("lost")),
	}
	if wanted.assignor == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if wanted.instance != "" {
		options = append(options, kgo.InstanceID(wanted.instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	// A poll that blocks rebalances is over before the client may close.
	defer client.CloseAllowingRebalance()
	commit := func(offsets map[int32]int64) {
		generation, _ := name(client)
		state.commit(offsets, generation, func() error { return f.commit(client, wanted.topic, offsets) })
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), pollTime)
		fetches := client.PollFetches(ctx)
		cancel()
		for _, failure := range fetches.Errors() {
			if errors.Is(failure.Err, kerr.FencedInstanceID) {
				return failure.Err
			}
		}
		fetches.EachPartition(func(found kgo.FetchTopicPartition) {
			offsets := make([]int64, 0, len(found.Records))
			for _, one := range found.Records {
				offsets = append(offsets, one.Offset)
			}
			if len(offsets) > 0 {
				state.read(found.Partition, offsets)
				commit(map[int32]int64{found.Partition: offsets[len(offsets)-1] + 1})
			}
		})
		client.AllowRebalance()
		select {
		case line, open := <-lines:
			if !open || line == "leave" {
				return nil
			}
			commit(state.everything())
		default:
		}
	}
}

func (f franz) commit(client *kgo.Client, topic string, offsets map[int32]int64) error {
	wanted := map[string]map[int32]kgo.EpochOffset{topic: {}}
	for partition, offset := range offsets {
		wanted[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var refusal error
	client.CommitOffsetsSync(ctx, wanted, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if refusal = err; err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					refusal = err
				}
			}
		}
	})
	return refusal
}
