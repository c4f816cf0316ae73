/**
 * Addresses that this host fetches nothing from for a run: those which no rule of `egress` opens to a guest, because what listens
 * there trusts its network (`native/keeper/src/egress/address.rs`).
 */
import { BlockList, isIPv6 } from 'node:net';

const CLOSED_V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;

/** Addresses of version 4 in another form among them, whatever they lead to. */
const CLOSED_V6 = [
  ['::1', 128],
  ['::', 96],
  ['::ffff:0:0', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
] as const;

// One list of both would find each address of version 4 among those in another form.
const closedV4 = new BlockList();
for (const [network, prefix] of CLOSED_V4) closedV4.addSubnet(network, prefix, 'ipv4');
const closedV6 = new BlockList();
for (const [network, prefix] of CLOSED_V6) closedV6.addSubnet(network, prefix, 'ipv6');

/** @param address  a number, as a lookup gives it */
export function isClosedAddress(address: string): boolean {
  return isIPv6(address) ? closedV6.check(address, 'ipv6') : closedV4.check(address, 'ipv4');
}
