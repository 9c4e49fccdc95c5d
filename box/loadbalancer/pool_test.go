package loadbalancer

import (
	"errors"
	"net/netip"
	"testing"
)

func mustPool(t *testing.T, cidr string) *pool {
	t.Helper()
	p, err := newPool(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func acquire(t *testing.T, p *pool, owner, wanted, expected string) {
	t.Helper()
	got, err := p.acquire(owner, parse(wanted))
	if err != nil || got.String() != expected {
		t.Errorf("%s wanted %q: got %v, %v; expected %s", owner, wanted, got, err, expected)
	}
}

func TestAcquire(t *testing.T) {
	p := mustPool(t, "192.0.2.0/26")
	acquire(t, p, "a", "", "192.0.2.10")
	acquire(t, p, "b", "", "192.0.2.11")
	acquire(t, p, "a", "", "192.0.2.10")             // keeps what it has
	acquire(t, p, "c", "192.0.2.11", "192.0.2.12")   // taken
	acquire(t, p, "d", "198.51.100.7", "192.0.2.13") // out of range
	acquire(t, p, "e", "192.0.2.0", "192.0.2.14")    // the network itself
	acquire(t, p, "f", "192.0.2.63", "192.0.2.15")   // broadcast
	acquire(t, p, "g", "192.0.2.2", "192.0.2.2")     // below the first, but asked for
	acquire(t, p, "a", "192.0.2.40", "192.0.2.40")   // moves
	acquire(t, p, "h", "", "192.0.2.10")             // what it left behind
	p.release("b")
	acquire(t, p, "i", "", "192.0.2.11")
}

func TestExhaustion(t *testing.T) {
	p := mustPool(t, "192.0.2.16/28") // .26 to .30 are given out
	for _, owner := range []string{"a", "b", "c", "d", "e"} {
		if _, err := p.acquire(owner, netip.Addr{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.acquire("f", netip.Addr{}); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v", err)
	}
	p.release("c")
	acquire(t, p, "f", "", "192.0.2.28")
}

func TestNewPoolRefuses(t *testing.T) {
	for _, cidr := range []string{"", "192.0.2.1", "192.0.2.0/31", "2001:db8::/64"} {
		if _, err := newPool(cidr); err == nil {
			t.Errorf("%q was accepted", cidr)
		}
	}
}
