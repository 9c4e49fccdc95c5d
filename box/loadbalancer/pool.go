package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
)

// firstOffset leaves the lowest addresses of the range to whoever plans them
// by hand: they are given out only when a Service asks for one by name.
const firstOffset = 10

// ErrExhausted says that every address of the range has an owner.
var ErrExhausted = errors.New("no free address left in the range")

// pool remembers which Service owns which address. It is not safe for
// concurrent use: the controller has one worker, which makes "two Services
// never get one address" a property of this map and of nothing else.
type pool struct {
	prefix netip.Prefix
	owners map[netip.Addr]string
	owned  map[string]netip.Addr
}

func newPool(cidr string) (*pool, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, err
	}
	prefix = prefix.Masked()
	if !prefix.Addr().Is4() || prefix.Bits() > 30 {
		return nil, fmt.Errorf("%s is not an IPv4 range with at least two usable addresses", cidr)
	}
	return &pool{prefix: prefix, owners: map[netip.Addr]string{}, owned: map[string]netip.Addr{}}, nil
}

// usable excludes the network's own address and its broadcast address.
func (p *pool) usable(address netip.Addr) bool {
	return p.prefix.Contains(address) && address != p.prefix.Addr() && p.prefix.Contains(address.Next())
}

// claim makes the address the owner's only one, unless it cannot be had.
func (p *pool) claim(owner string, address netip.Addr) bool {
	if !p.usable(address) {
		return false
	}
	if holder, taken := p.owners[address]; taken {
		return holder == owner
	}
	p.release(owner)
	p.owners[address], p.owned[owner] = owner, address
	return true
}

// acquire returns the owner's address: the wanted one if it can be had, else
// the one it already has, else the lowest free one.
func (p *pool) acquire(owner string, wanted netip.Addr) (netip.Addr, error) {
	if p.claim(owner, wanted) {
		return wanted, nil
	}
	if address, ok := p.owned[owner]; ok {
		return address, nil
	}
	address := p.prefix.Addr()
	for range firstOffset {
		address = address.Next()
	}
	for ; p.usable(address); address = address.Next() {
		if p.claim(owner, address) {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w %s", ErrExhausted, p.prefix)
}

// release returns the address that was given back, if the owner had one.
func (p *pool) release(owner string) (netip.Addr, bool) {
	address, ok := p.owned[owner]
	if ok {
		delete(p.owned, owner)
		delete(p.owners, address)
	}
	return address, ok
}
