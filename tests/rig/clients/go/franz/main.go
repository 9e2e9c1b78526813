// The steps by franz-go.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klamm/rig/clients/steps"
)

var (
	told  = steps.Arguments()
	admin *kadm.Client
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(told.Bootstrap...))
	if err != nil {
		panic(err)
	}
	admin = kadm.NewClient(client)
	steps.Tell("create", create)
	steps.Tell("create again", createAgain)
	steps.Tell("grow", grow)
	steps.Tell("produce", produce)
	steps.Tell("transact", transact)
	steps.Tell("consume", consume)
	steps.Tell("list groups", listGroups)
	steps.Tell("delete", remove)
	client.Close()
}

func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), steps.Patience)
}

func create() (string, error) {
	ctx, cancel := patient()
	defer cancel()
	if _, err := admin.CreateTopic(ctx, steps.Partitions, steps.Replicas, nil, told.Topic); err != nil {
		return "", err
	}
	return seen(steps.Partitions)
}

func createAgain() (string, error) {
	ctx, cancel := patient()
	defer cancel()
	_, err := admin.CreateTopic(ctx, steps.Partitions, steps.Replicas, nil, told.Topic)
	var code *kerr.Error
	if errors.As(err, &code) {
		return fmt.Sprintf("error %d", code.Code), nil
	}
	return "", errors.Join(steps.ErrNone, err)
}

func grow() (string, error) {
	ctx, cancel := patient()
	defer cancel()
	answer, err := admin.UpdatePartitions(ctx, steps.Grown, told.Topic)
	if err = errors.Join(err, answer.Error()); err != nil {
		return "", err
	}
	return seen(steps.Grown)
}

func seen(partitions int) (string, error) {
	return steps.Until(func() (string, error) {
		ctx, cancel := patient()
		defer cancel()
		topics, err := admin.ListTopics(ctx, told.Topic)
		if err != nil {
			return "", err
		}
		var leaders []int32
		var replicas []int
		for _, partition := range topics[told.Topic].Partitions {
			leaders = append(leaders, partition.Leader)
			replicas = append(replicas, len(partition.Replicas))
		}
		return steps.Described(partitions, leaders, replicas), nil
	})
}

func produce() (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(told.Bootstrap...), kgo.DefaultProduceTopic(told.Topic))
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := patient()
	defer cancel()
	answered := client.ProduceSync(ctx, numbered("", steps.Records)...)
	return fmt.Sprintf("%d acknowledged", len(answered)), answered.FirstErr()
}

func transact() (string, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(told.Bootstrap...), kgo.DefaultProduceTopic(told.Topic), kgo.TransactionalID(told.Group),
	)
	if err != nil {
		return "", err
	}
	defer client.Close()
	err = errors.Join(
		transaction(client, "c", steps.Committed, kgo.TryCommit), transaction(client, "a", steps.Aborted, kgo.TryAbort),
	)
	return "one committed, one aborted", err
}

func transaction(client *kgo.Client, prefix string, records int, end kgo.TransactionEndTry) error {
	ctx, cancel := patient()
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, numbered(prefix, records)...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, end)
}

func numbered(prefix string, count int) []*kgo.Record {
	var records []*kgo.Record
	for number := range count {
		records = append(records, kgo.StringRecord(fmt.Sprint(prefix, number)))
	}
	return records
}

func consume() (string, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(told.Bootstrap...), kgo.ConsumeTopics(told.Topic), kgo.ConsumerGroup(told.Group),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := patient()
	defer cancel()
	var read []string
	for len(read) < steps.Records+steps.Committed {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		fetches.EachRecord(func(record *kgo.Record) { read = append(read, string(record.Value)) })
	}
	return steps.Read(read), client.CommitUncommittedOffsets(ctx)
}

func listGroups() (string, error) {
	ctx, cancel := patient()
	defer cancel()
	groups, err := admin.ListGroups(ctx)
	times := 0
	for name := range groups {
		if name == told.Group {
			times++
		}
	}
	return fmt.Sprintf("listed %d times", times), err
}

func remove() (string, error) {
	ctx, cancel := patient()
	defer cancel()
	answer, err := admin.DeleteTopics(ctx, told.Topic)
	if err = errors.Join(err, answer.Error()); err != nil {
		return "", err
	}
	return steps.Until(func() (string, error) {
		topics, err := admin.ListTopics(ctx)
		if err != nil || topics.Has(told.Topic) {
			return "", err
		}
		return "gone", nil
	})
}
