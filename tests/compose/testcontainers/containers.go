// Starts a broker in a network, and stops it at the end of the input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/testcontainers/testcontainers-go/network"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	shared, err := network.New(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Remove(ctx)
	began := time.Now()
	options := []testcontainers.ContainerCustomizer{network.WithNetwork([]string{"kafka"}, shared)}
	if os.Args[1] == "cluster-id" {
		options = append(options, kafka.WithClusterID("test-cluster"))
	}
	container, err := kafka.Run(ctx, "odradek:7.9.0", options...)
	defer testcontainers.TerminateContainer(container, testcontainers.StopTimeout(0))
	if err != nil {
		log.Print(err)
		return
	}
	readyMs := time.Since(began).Milliseconds()
	brokers, err := container.Brokers(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(brokers[0], shared.Name, readyMs)
	io.ReadAll(os.Stdin)
}
