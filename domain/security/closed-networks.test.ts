import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CLOSED_NETWORKS, findClosedNetwork, GUARDED_ADDRESSES } from './closed-networks.ts';

test('the table equals the table of the keeper', () => {
  const source = readFileSync(new URL('../../native/keeper/src/egress/address.rs', import.meta.url), 'utf8');
  const closed = source.slice(0, source.indexOf('const GUARDED'));
  const keepers = [...closed.matchAll(/\(\s*\[([0-9a-fx, ]+)\],\s*(\d+),\s*"/g)].map(([, numbers = '', prefix]) => {
    const parts = numbers.split(',').map(Number);
    const text = parts.length === 4 ? parts.join('.') : parts.map((part) => part.toString(16)).join(':');
    return `${new URL(`http://${parts.length === 4 ? text : `[${text}]`}`).hostname.replace(/^\[|\]$/g, '')}/${prefix}`;
  });
  const own = CLOSED_NETWORKS.map(({ network, prefix }) => `${network}/${prefix}`);
  expect(keepers).toHaveLength(31);
  expect(own.map((each) => each.replace('::ffff:0:0/96', '::ffff:0.0.0.0/96'))).toEqual(
    keepers.map((each) => each.replace('::ffff:0:0/96', '::ffff:0.0.0.0/96')),
  );
  const guarded = source.slice(source.indexOf('const GUARDED'), source.indexOf('pub struct Guarded'));
  expect([...guarded.matchAll(/\[([\d, ]+)\]/g)].map(([, numbers = '']) => numbers.replaceAll(', ', '.'))).toEqual(
    GUARDED_ADDRESSES,
  );
});

test('a network within a closed one is closed, and a wider one is not', () => {
  for (const cidr of ['127.0.0.1/32', '10.0.0.0/8', '192.168.1.0/24', '::1/128', 'fd00:ec2::254/128', 'FE80::/10'])
    expect(findClosedNetwork(cidr), cidr).not.toBeNull();
  for (const cidr of ['0.0.0.0/0', '8.0.0.0/5', '8.8.8.8/32', '::/0', 'f000::/4', '2606:4700::/32', '168.63.129.16/32'])
    expect(findClosedNetwork(cidr), cidr).toBeNull();
});
