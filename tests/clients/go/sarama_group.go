package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// the library calls saramaMember for each session; commits go through its offset manager, which keeps
// errors for a channel: what was committed is asked for afterwards.
type saramaMember struct {
	*member
	wanted  groupWanted
	admin   sarama.ClusterAdmin
	errors  <-chan error
	guard   sync.Mutex
	session sarama.ConsumerGroupSession
	// Both make the metadata of a commit, by which it is known from others of the same offset.
	started string
	commits int
}

// connected connects, also to a broker that is being started: the library gives up after 1 s.
func connected[Client any](connect func() (Client, error)) (Client, error) {
	deadline := time.Now().Add(connectTimeout)
	for {
		client, err := connect()
		if !errors.Is(err, sarama.ErrOutOfBrokers) || time.Now().After(deadline) {
			return client, err
		}
		time.Sleep(pollTime)
	}
}

func (s saramaLibrary) live(wanted groupWanted, lines <-chan string) error {
	config := newConfig()
	group := &config.Consumer.Group
	group.Session.Timeout = wanted.session
	group.Heartbeat.Interval = wanted.heartbeat()
	group.Rebalance.Timeout = rebalanceTimeout
	group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{map[string]sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	}[wanted.assignor]}
	group.InstanceId = wanted.instance
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	admin, err := connected(func() (sarama.ClusterAdmin, error) {
		return sarama.NewClusterAdmin(s.addresses(), newConfig())
	})
	if err != nil {
		return err
	}
	defer admin.Close()
	consumers, err := connected(func() (sarama.ConsumerGroup, error) {
		return sarama.NewConsumerGroup(s.addresses(), wanted.group, config)
	})
	if err != nil {
		return err
	}
	failures := make(chan error, 16)
	go func() {
		for failure := range consumers.Errors() {
			select {
			case failures <- failure:
			default:
			}
		}
	}()
	started := time.Now().String()
	state := &saramaMember{member: newMember(), wanted: wanted, admin: admin, errors: failures, started: started}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := consumers.Consume(ctx, []string{wanted.topic}, state); errors.Is(err, sarama.ErrFencedInstancedId) {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for {
		select {
		case line, open := <-lines:
			if open && line != "leave" {
				state.commitAgain()
				continue
			}
			cancel()
			<-ended
			return consumers.Close()
		case err := <-ended:
			cancel()
			consumers.Close()
			return err
		}
	}
}

func (s *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.session = session
	s.assigned(session.Claims()[s.wanted.topic], session.GenerationID(), session.MemberID())
	return nil
}

func (s *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.session = nil
	s.taken("revoked", session.Claims()[s.wanted.topic], session.GenerationID(), session.MemberID())
	return nil
}

func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			offsets := []int64{message.Offset}
			for more := len(claim.Messages()); more > 0; more-- {
				offsets = append(offsets, (<-claim.Messages()).Offset)
			}
			s.guard.Lock()
			s.read(message.Partition, offsets)
			s.commit(map[int32]int64{message.Partition: offsets[len(offsets)-1] + 1}, session)
			s.guard.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s *saramaMember) commitAgain() {
	s.guard.Lock()
	defer s.guard.Unlock()
	offsets := s.everything()
	if s.session == nil {
		offsets = nil
	}
	s.commit(offsets, s.session)
}

func (s *saramaMember) commit(offsets map[int32]int64, session sarama.ConsumerGroupSession) {
	var generation int32 = -1
	if session != nil {
		generation = session.GenerationID()
	}
	s.commits++
	mark := fmt.Sprintf("%s %d", s.started, s.commits)
	s.member.commit(offsets, generation, func() error {
		for partition, offset := range offsets {
			// One of them takes new offsets only, the other old ones only.
			session.MarkOffset(s.wanted.topic, partition, offset, mark)
			session.ResetOffset(s.wanted.topic, partition, offset, mark)
		}
		for len(s.errors) > 0 {
			<-s.errors // Of commits before.
		}
		session.Commit()
		partitions := make([]int32, 0, len(offsets))
		for partition := range offsets {
			partitions = append(partitions, partition)
		}
		stored, err := s.admin.ListConsumerGroupOffsets(s.wanted.group, map[string][]int32{s.wanted.topic: partitions})
		if err != nil {
			return err
		}
		for partition, offset := range offsets {
			if found := stored.GetBlock(s.wanted.topic, partition); found == nil || found.Offset != offset || found.Metadata != mark {
				select {
				case failure := <-s.errors:
					return failure
				case <-time.After(time.Second):
					return fmt.Errorf("partition %d: %v is stored, not %d", partition, found, offset)
				}
			}
		}
		return nil
	})
}
