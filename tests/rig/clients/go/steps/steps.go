// Package steps is what the Go clients of the suite share: see ../../python/steps.py for what the steps are.
package steps

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
)

const (
	Partitions = 4
	Grown      = 6
	Replicas   = 3
	Records    = 60
	Committed  = 30
	Aborted    = 10
	Patience   = 40 * time.Second
	pace       = 100 * time.Millisecond
)

// Told is what the rig gives a client.
type Told struct {
	Bootstrap    []string
	Topic, Group string
}

// Arguments reads what the rig gives a client.
func Arguments() Told {
	return Told{strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]}
}

// Tell does a step and says what was seen.
func Tell(step string, act func() (string, error)) {
	fact, err := act()
	if err != nil {
		fact = "FAILED " + strings.SplitN(err.Error(), "\n", 2)[0]
	}
	fmt.Printf("%s: %s\n", step, fact)
}

// Until looks until something is found.
func Until(look func() (string, error)) (string, error) {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(pace) {
		if found, err := look(); err != nil || found != "" {
			return found, err
		}
	}
	return "", fmt.Errorf("nothing came of it in %s", Patience)
}

// Described tells the partitions once all of them are led: one number of replicas a partition.
func Described(partitions int, leaders []int32, replicas []int) string {
	different := map[int]bool{}
	for _, count := range replicas {
		different[count] = true
	}
	for _, leader := range leaders {
		if leader < 0 {
			return ""
		}
	}
	if len(leaders) != partitions {
		return ""
	}
	counts := []int{}
	for count := range different {
		counts = append(counts, count)
	}
	sort.Ints(counts)
	return fmt.Sprintf("%d partitions, %d replicas", partitions, counts)
}

// Read tells what a consumer read.
func Read(values []string) string {
	different := map[string]bool{}
	for _, value := range values {
		different[value] = true
	}
	return fmt.Sprintf("%d read, %d of them different", len(values), len(different))
}

// ErrNone is what a step fails with that was to be refused.
var ErrNone = errors.New("no error came")
