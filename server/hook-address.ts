import { isIPv6 } from 'node:net';
import { toPlainAddress } from '../client/embedded/listen-address.ts';

/** The part of an address of IPv6 that one network has: its first 64 bits. */
const NETWORK_GROUPS = 4;
const GROUPS = 8;

/** Returns the key by which requests of one sender are counted: an address, or the network of one of IPv6. */
export function toSenderKey(address: string): string {
  const plain = toPlainAddress(address);
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.split('%')[0]!.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, GROUPS - before.length - after.length) }, () => '0');
  const groups = [...before, ...(tail === undefined ? [] : zeros), ...after].map((group) =>
    group.replace(/^0+(?=.)/, ''),
  );
  return groups.slice(0, NETWORK_GROUPS).join(':');
}
