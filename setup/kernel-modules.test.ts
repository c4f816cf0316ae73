import { describe, expect, it } from 'vitest';
import { moduleDependencies } from './kernel-modules.ts';

describe('moduleDependencies', () => {
  it.each([
    ['license=GPL\0depends=netfs,9pnet-core\0retpoline=Y\0', ['netfs', '9pnet_core']],
    ['license=GPL\0depends=\0', []],
    ['license=GPL\0softdepends=crc\0', []],
  ])('reads %j', (info, expected) => {
    expect(moduleDependencies(Buffer.from(`\x7fELF\0${info}`, 'latin1'))).toEqual(expected);
  });
});
