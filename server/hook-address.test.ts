import { expect, test } from 'vitest';
import { toSenderKey } from './hook-address.ts';

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['2001:0DB8:0000:0000:1:2:3:4', '2001:db8:0:0'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::', '2001:db8:1:2'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::1', '0:0:0:0'],
  ['::', '0:0:0:0'],
  ['1:2:3:4:5:6:7::', '1:2:3:4'],
  ['::2:3:4:5:6:7:8', '0:2:3:4'],
])('a request of %s counts for %s', (address, key) => {
  expect(toSenderKey(address)).toBe(key);
});
