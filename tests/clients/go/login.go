package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	kafkagosasl "github.com/segmentio/kafka-go/sasl"
	kafkagoplain "github.com/segmentio/kafka-go/sasl/plain"
	kafkagoscram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

const loginPause = 100 * time.Millisecond

// login is the command of tests/security/clients/README.md.
type login struct{ values url.Values }

func parseLogin(query string) login {
	values, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	return login{values}
}

func (l login) get(name string) string { return l.values.Get(name) }

func (l login) milliseconds(name string) time.Duration {
	return time.Duration(number(l.get(name))) * time.Millisecond
}

// tls returns nil for a protocol without TLS.
func (l login) tls() *tls.Config {
	if !strings.HasSuffix(l.get("protocol"), "SSL") {
		return nil
	}
	config := &tls.Config{ServerName: "localhost"}
	if file := l.get("authority"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(text)
	}
	if file := l.get("certificate"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, l.get("key"))
		if err != nil {
			panic(err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			// Also where no authority that the server names has signed it.
			return &pair, nil
		}
	}
	return config
}

// token has no signature and is valid for life_ms from now on.
func (l login) token() string {
	now := time.Now()
	end := now.Add(l.milliseconds("life_ms"))
	start := now
	if end.Before(now) {
		start = end.Add(-time.Second)
	}
	seconds := func(at time.Time) string { return fmt.Sprintf("%d.%03d", at.Unix(), at.UnixMilli()%1000) }
	claims := fmt.Sprintf(`{"sub":%q,"iat":%s,"exp":%s}`, l.get("user"), seconds(start), seconds(end))
	encoded := base64.RawURLEncoding.EncodeToString
	return encoded([]byte(`{"alg":"none"}`)) + "." + encoded([]byte(claims)) + "."
}

// Token is what Sarama asks for.
func (l login) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: l.token()}, nil }

var endpoints = regexp.MustCompile(`\S+:\d+(->\S+:\d+)?|seed_?\d+|unable to dial|:\s+(?:$)`)

// outcome says what a library reported: its text without addresses.
func outcome(err error) map[string]any {
	if err == nil {
		return map[string]any{"kind": "served", "text": ""}
	}
	return map[string]any{"kind": endpoints.ReplaceAllString(err.Error(), ""), "text": err.Error()}
}

func (l login) until(act func() error) error {
	end := time.Now().Add(l.milliseconds("stay_ms"))
	for {
		if err := act(); err != nil || time.Now().After(end) {
			return err
		}
		time.Sleep(loginPause)
	}
}

func (f franz) login(l login) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(l.get("bootstrap")),
		kgo.DefaultProduceTopic(l.get("topic")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(),
		kgo.RequestRetries(0),
		kgo.RecordRetries(1),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.get("topic"): {0: kgo.NewOffset().AtEnd().Relative(-1)}}),
	}
	if config := l.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := l.franzMechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.milliseconds("stay_ms")+l.milliseconds("timeout_ms"))
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	err = l.until(func() error {
		return client.ProduceSync(ctx, &kgo.Record{Value: []byte{7}}).FirstErr()
	})
	if err != nil {
		return err
	}
	fetches := client.PollFetches(ctx)
	if fetches.NumRecords() == 0 {
		return fmt.Errorf("the record is not read: %w", fetches.Err())
	}
	return nil
}

func (l login) franzMechanism() sasl.Mechanism {
	auth := scram.Auth{User: l.get("user"), Pass: l.get("password")}
	switch l.get("mechanism") {
	case "PLAIN":
		return plain.Auth{User: l.get("user"), Pass: l.get("password")}.AsMechanism()
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: l.token()}, nil })
	}
	return nil
}

func (s saramaLibrary) login(l login) error {
	config := newConfig()
	config.Metadata.Retry.Max = 0
	config.Producer.Retry.Max = 0
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	for _, timeout := range []*time.Duration{&config.Net.DialTimeout, &config.Net.ReadTimeout, &config.Net.WriteTimeout} {
		*timeout = l.milliseconds("timeout_ms")
	}
	if tls := l.tls(); tls != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, tls
	}
	if mechanism := l.get("mechanism"); mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = l.get("user"), l.get("password")
		config.Net.SASL.TokenProvider = l
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &scramClient{make: map[string]xdg.HashGeneratorFcn{
				"SCRAM-SHA-256": func() hash.Hash { return sha256.New() },
				"SCRAM-SHA-512": func() hash.Hash { return sha512.New() },
			}[mechanism]}
		}
	}
	client, err := sarama.NewClient([]string{l.get("bootstrap")}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return err
	}
	defer producer.Close()
	var offset int64
	err = l.until(func() error {
		_, offset, err = producer.SendMessage(&sarama.ProducerMessage{
			Topic: l.get("topic"), Partition: 0, Value: sarama.ByteEncoder{7},
		})
		return err
	})
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(l.get("topic"), 0, offset)
	if err != nil {
		return err
	}
	defer partition.Close()
	select {
	case <-partition.Messages():
		return nil
	case <-time.After(l.milliseconds("timeout_ms")):
		return errors.New("the record is not read")
	}
}

// scramClient is what Sarama leaves to its users.
type scramClient struct {
	make         xdg.HashGeneratorFcn
	conversation *xdg.ClientConversation
}

func (s *scramClient) Begin(user, password, authorization string) error {
	client, err := s.make.NewClient(user, password, authorization)
	if err == nil {
		s.conversation = client.NewConversation()
	}
	return err
}

func (s *scramClient) Step(challenge string) (string, error) { return s.conversation.Step(challenge) }

func (s *scramClient) Done() bool { return s.conversation.Done() }

func (k kafkaGo) login(l login) error {
	mechanism, err := l.kafkaGoMechanism()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.milliseconds("stay_ms")+l.milliseconds("timeout_ms"))
	defer cancel()
	transport := &kafka.Transport{TLS: l.tls(), SASL: mechanism, DialTimeout: l.milliseconds("timeout_ms")}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr:         kafka.TCP(l.get("bootstrap")),
		Topic:        l.get("topic"),
		Transport:    transport,
		BatchTimeout: 5 * time.Millisecond,
		RequiredAcks: kafka.RequireAll,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
	}
	defer writer.Close()
	dialer := &kafka.Dialer{Timeout: l.milliseconds("timeout_ms"), TLS: l.tls(), SASLMechanism: mechanism}
	connection, err := dialer.DialLeader(ctx, "tcp", l.get("bootstrap"), l.get("topic"), 0)
	if err != nil {
		return err
	}
	connection.Close()
	err = l.until(func() error { return writer.WriteMessages(ctx, kafka.Message{Value: []byte{7}}) })
	if err != nil {
		return err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{l.get("bootstrap")}, Topic: l.get("topic"), Partition: 0, Dialer: dialer,
		MinBytes: 1, MaxBytes: 1 << 20, MaxWait: loginPause,
	})
	defer reader.Close()
	_, err = reader.ReadMessage(ctx)
	return err
}

func (l login) kafkaGoMechanism() (kafkagosasl.Mechanism, error) {
	user, password := l.get("user"), l.get("password")
	switch l.get("mechanism") {
	case "PLAIN":
		return kafkagoplain.Mechanism{Username: user, Password: password}, nil
	case "SCRAM-SHA-256":
		return kafkagoscram.Mechanism(kafkagoscram.SHA256, user, password)
	case "SCRAM-SHA-512":
		return kafkagoscram.Mechanism(kafkagoscram.SHA512, user, password)
	case "":
		return nil, nil
	}
	return nil, errors.New("kafka-go has no such mechanism")
}
