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

it('closes the platform’s address of Azure and the networks of this host', () => {
  const interfaces = { near: [{ cidr: '93.184.215.14/24' }, { cidr: '2606:4700::5/64' }, { cidr: '1.2.3.4/0' }] };
  for (const address of ['168.63.129.16', '93.184.215.77', '2606:4700::77'])
    expect(isClosedAddress(address, interfaces), address).toBe(true);
  for (const address of ['168.63.129.17', '93.184.216.1', '2606:4700:0:1::1', '8.8.8.8'])
    expect(isClosedAddress(address, interfaces), address).toBe(false);
});
