// The steps by sarama.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"klamm/rig/clients/steps"
)

var (
	told  = steps.Arguments()
	admin sarama.ClusterAdmin
)

func main() {
	var err error
	if admin, err = sarama.NewClusterAdmin(told.Bootstrap, config()); err != nil {
		panic(err)
	}
	steps.Tell("create", create)
	steps.Tell("create again", createAgain)
	steps.Tell("grow", grow)
	steps.Tell("produce", produce)
	steps.Tell("transact", transact)
	steps.Tell("consume", consume)
	steps.Tell("list groups", listGroups)
	steps.Tell("delete", remove)
}

// What the oldest broker of the cluster understands: sarama takes the word of its configuration.
func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_4_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func wanted() *sarama.TopicDetail {
	return &sarama.TopicDetail{NumPartitions: steps.Partitions, ReplicationFactor: steps.Replicas}
}

func create() (string, error) {
	if err := admin.CreateTopic(told.Topic, wanted(), false); err != nil {
		return "", err
	}
	return seen(steps.Partitions)
}

func createAgain() (string, error) {
	err := admin.CreateTopic(told.Topic, wanted(), false)
	var code *sarama.TopicError
	if errors.As(err, &code) {
		return fmt.Sprintf("error %d", code.Err), nil
	}
	return "", errors.Join(steps.ErrNone, err)
}

func grow() (string, error) {
	if err := admin.CreatePartitions(told.Topic, steps.Grown, nil, false); err != nil {
		return "", err
	}
	return seen(steps.Grown)
}

func seen(partitions int) (string, error) {
	return steps.Until(func() (string, error) {
		topics, err := admin.DescribeTopics([]string{told.Topic})
		if err != nil {
			return "", err
		}
		var leaders []int32
		var replicas []int
		for _, partition := range topics[0].Partitions {
			leaders = append(leaders, partition.Leader)
			replicas = append(replicas, len(partition.Replicas))
		}
		return steps.Described(partitions, leaders, replicas), nil
	})
}

func produce() (string, error) {
	config := config()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(told.Bootstrap, config)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	return fmt.Sprintf("%d acknowledged", steps.Records), send(producer, numbered("", steps.Records))
}

func transact() (string, error) {
	config := config()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = told.Group
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(told.Bootstrap, config)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	err = errors.Join(
		producer.BeginTxn(), send(producer, numbered("c", steps.Committed)), producer.CommitTxn(),
		producer.BeginTxn(), send(producer, numbered("a", steps.Aborted)), producer.AbortTxn(),
	)
	return "one committed, one aborted", err
}

// One after the other: what waits behind a record that is sent again gets no sequence number (IBM/sarama#3354), and a leader
// that has just been elected may refuse the first, whoever the controller is.
func send(producer sarama.SyncProducer, messages []*sarama.ProducerMessage) error {
	for _, message := range messages {
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	return nil
}

func numbered(prefix string, count int) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprint(prefix, number))
		messages = append(messages, &sarama.ProducerMessage{Topic: told.Topic, Value: value})
	}
	return messages
}

// reader takes what a group's member is given until it has read enough.
type reader struct {
	values chan string
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			session.MarkMessage(message, "")
			r.values <- string(message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume() (string, error) {
	group, err := sarama.NewConsumerGroup(told.Bootstrap, told.Group, config())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), steps.Patience)
	defer cancel()
	reader := reader{make(chan string, steps.Records+steps.Committed)}
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{told.Topic}, reader) }()
	var read []string
	for len(read) < steps.Records+steps.Committed {
		select {
		case value := <-reader.values:
			read = append(read, value)
		case err := <-ended:
			return "", errors.Join(errors.New("the group ended early"), err)
		}
	}
	cancel()
	return steps.Read(read), errors.Join(<-ended, group.Close())
}

func listGroups() (string, error) {
	groups, err := admin.ListConsumerGroups()
	times := 0
	for name := range groups {
		if name == told.Group {
			times++
		}
	}
	return fmt.Sprintf("listed %d times", times), err
}

func remove() (string, error) {
	if err := admin.DeleteTopic(told.Topic); err != nil {
		return "", err
	}
	return steps.Until(func() (string, error) {
		topics, err := admin.ListTopics()
		if _, there := topics[told.Topic]; err != nil || there {
			return "", err
		}
		return "gone", nil
	})
}
