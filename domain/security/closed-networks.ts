/**
 * Networks that no rule of `egress` opens, because their servers trust their network. The keeper has the same table
 * (`native/keeper/src/egress/address.rs`), and decides; this one tells authors before a run.
 */

export interface ClosedNetwork {
  readonly network: string;
  readonly prefix: number;
  /** Follows "is". */
  readonly what: string;
}

const CLOSED_V4: readonly ClosedNetwork[] = [
  { network: '0.0.0.0', prefix: 8, what: 'an address of this network' },
  { network: '10.0.0.0', prefix: 8, what: 'private' },
  { network: '100.64.0.0', prefix: 10, what: "in a carrier's network" },
  { network: '127.0.0.0', prefix: 8, what: "the host's loopback" },
  { network: '169.254.0.0', prefix: 16, what: 'link-local (metadata services)' },
  { network: '172.16.0.0', prefix: 12, what: 'private' },
  { network: '192.0.0.0', prefix: 24, what: 'reserved' },
  { network: '192.0.2.0', prefix: 24, what: 'reserved' },
  { network: '192.88.99.0', prefix: 24, what: 'a relay to version 6' },
  { network: '192.168.0.0', prefix: 16, what: 'private' },
  { network: '198.18.0.0', prefix: 15, what: 'reserved' },
  { network: '198.51.100.0', prefix: 24, what: 'reserved' },
  { network: '203.0.113.0', prefix: 24, what: 'reserved' },
  { network: '224.0.0.0', prefix: 4, what: 'a multicast address' },
  { network: '240.0.0.0', prefix: 4, what: 'reserved' },
];

const OTHER_FORM = 'an address of version 4 in another form';

const CLOSED_V6: readonly ClosedNetwork[] = [
  { network: '::1', prefix: 128, what: "the host's loopback" },
  { network: '::', prefix: 96, what: OTHER_FORM },
  { network: '::ffff:0:0', prefix: 96, what: OTHER_FORM },
  { network: '::ffff:0:0:0', prefix: 96, what: OTHER_FORM },
  { network: '64:ff9b::', prefix: 96, what: OTHER_FORM },
  { network: '64:ff9b:1::', prefix: 48, what: OTHER_FORM },
  { network: '100::', prefix: 64, what: 'reserved' },
  { network: '2001::', prefix: 23, what: 'reserved' },
  { network: '2001:db8::', prefix: 32, what: 'reserved' },
  { network: '2002::', prefix: 16, what: OTHER_FORM },
  { network: '3fff::', prefix: 20, what: 'reserved' },
  { network: '5f00::', prefix: 16, what: 'reserved' },
  { network: 'fc00::', prefix: 7, what: 'private' },
  { network: 'fe80::', prefix: 10, what: 'link-local' },
  { network: 'fec0::', prefix: 10, what: 'private' },
  { network: 'ff00::', prefix: 8, what: 'a multicast address' },
];

export const CLOSED_NETWORKS: readonly ClosedNetwork[] = [...CLOSED_V4, ...CLOSED_V6];

/** Addresses of the internet that only a rule with their number opens. */
export const GUARDED_ADDRESSES: readonly string[] = ['168.63.129.16'];

const VERSION_4 = 32;
const VERSION_6 = 128;

/**
 * Finds the closed network that contains all addresses of a network.
 * @param cidr  such as `10.1.0.0/16`
 * @returns null if a rule can open some address of it, and for a text that is not a network
 */
export function findClosedNetwork(cidr: string): ClosedNetwork | null {
  const [address = '', digits = ''] = cidr.split('/');
  const found = readBits(address);
  const prefix = Number(digits);
  if (found === null || digits === '' || !(prefix <= found.length)) return null;
  return (
    CLOSED_NETWORKS.find((closed) => {
      const network = readBits(closed.network)!;
      if (network.length !== found.length || closed.prefix > prefix) return false;
      const rest = BigInt(found.length - closed.prefix);
      return network.bits >> rest === found.bits >> rest;
    }) ?? null
  );
}

/**
 * True for names that each host uses for its own loopback.
 * @param name  in lower case
 */
export function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost');
}

interface Bits {
  readonly length: 32 | 128;
  readonly bits: bigint;
}

function readBits(address: string): Bits | null {
  if (!address.includes(':')) {
    const parts = address.split('.').map(Number);
    const isAddress = parts.length === 4 && parts.every((part) => Number.isInteger(part) && part >= 0 && part <= 255);
    if (!isAddress) return null;
    return { length: VERSION_4, bits: parts.reduce((bits, part) => (bits << 8n) | BigInt(part), 0n) };
  }
  const [head = '', tail] = address.split('::');
  const groups = (text: string): readonly string[] => (text === '' ? [] : text.split(':'));
  const first = groups(head);
  const last = groups(tail ?? '');
  const zeros = tail === undefined ? 0 : 8 - first.length - last.length;
  if (zeros < 0) return null;
  const all = [...first, ...Array.from({ length: zeros }, () => '0'), ...last];
  if (all.length !== 8 || !all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return null;
  return { length: VERSION_6, bits: all.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n) };
}
