// What programs that monitor Kafka show, asked with the libraries that they are made of:
// `lags franz|sarama ADDRESS TOPIC GROUP` prints one object of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 60 * time.Second

type shown struct {
	Brokers []int32         `json:"brokers"`
	Groups  []string        `json:"groups"`
	State   string          `json:"state"`
	Lags    map[int32]int64 `json:"lags"`
	Size    int64           `json:"size"`
}

func main() {
	monitors := map[string]func([]string, string, string) (shown, error){
		"franz": withFranz, "sarama": withSarama,
	}
	result, err := monitors[os.Args[1]](strings.Split(os.Args[2], ","), os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func withFranz(addresses []string, topic string, group string) (shown, error) {
	result := shown{Lags: map[int32]int64{}}
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		return result, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	admin := kadm.NewClient(client)
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return result, err
	}
	result.Brokers = brokers.NodeIDs()
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return result, err
	}
	result.Groups = groups.Groups()
	lags, err := admin.Lag(ctx, group)
	if err != nil {
		return result, err
	}
	if err := lags.Error(); err != nil {
		return result, err
	}
	result.State = lags[group].State
	for partition, lag := range lags[group].Lag[topic] {
		result.Lags[partition] = lag.Lag
	}
	folders, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return result, err
	}
	folders.Each(func(folder kadm.DescribedLogDir) {
		folder.Topics.Each(func(partition kadm.DescribedLogDirPartition) {
			if partition.Topic == topic {
				result.Size += partition.Size
			}
		})
	})
	return result, nil
}

func withSarama(addresses []string, topic string, group string) (shown, error) {
	result := shown{Lags: map[int32]int64{}}
	settings := sarama.NewConfig()
	settings.Version = sarama.V3_9_0_0
	client, err := sarama.NewClient(addresses, settings)
	if err != nil {
		return result, err
	}
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return result, err
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return result, err
	}
	for _, broker := range brokers {
		result.Brokers = append(result.Brokers, broker.ID())
	}
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return result, err
	}
	for name := range groups {
		result.Groups = append(result.Groups, name)
	}
	descriptions, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return result, err
	}
	result.State = descriptions[0].State
	committed, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return result, err
	}
	for partition, block := range committed.Blocks[topic] {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		if err != nil {
			return result, err
		}
		result.Lags[partition] = end - block.Offset
	}
	folders, err := admin.DescribeLogDirs(result.Brokers)
	if err != nil {
		return result, err
	}
	for _, ofBroker := range folders {
		for _, folder := range ofBroker {
			for _, described := range folder.Topics {
				for _, partition := range described.Partitions {
					if described.Topic == topic {
						result.Size += partition.Size
					}
				}
			}
		}
	}
	return result, nil
}
