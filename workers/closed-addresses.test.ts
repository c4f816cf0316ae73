import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isClosedAddress } from './closed-addresses.ts';

it.each(['127.0.0.1', '10.1.2.3', '169.254.169.254', '192.168.0.1', '172.31.0.1', '100.100.0.1', '0.0.0.0'])(
  '%s is closed, in every form',
  (address) => {
    for (const form of [address, `::ffff:${address}`, `::${address}`, `64:ff9b::${address}`])
      expect(isClosedAddress(form), form).toBe(true);
  },
);

it.each(['::1', '::', 'fe80::1', 'fd00::1', 'ff02::1', '2002:7f00:1::', '2001:db8::1'])('%s is closed', (address) => {
  expect(isClosedAddress(address)).toBe(true);
});

it.each(['1.1.1.1', '185.199.108.133', '172.32.0.1', '2606:50c0:8000::154'])('%s is of the internet', (address) => {
  expect(isClosedAddress(address)).toBe(false);
});

it('has as many networks as the keeper', () => {
  const count = (file: string, pattern: RegExp): number =>
    (readFileSync(new URL(file, import.meta.url), 'utf8').match(pattern) ?? []).length;
  const keepers = count('../native/keeper/src/egress/address.rs', /\[[0-9a-fx, ]+\],\s*\d+,\s*"/g);
  expect(keepers).toBe(31);
  expect(count('closed-addresses.ts', /^ {2}\['[0-9a-f.:]+', \d+\],$/gm)).toBe(keepers);
});
