import { describe, expect, it } from 'vitest';
import { moduleDependencies, orderModules, withoutSignature } from './kernel-modules.ts';

describe('moduleDependencies', () => {
  it.each([
    ['license=GPL\0depends=netfs,9pnet-core\0retpoline=Y\0', ['netfs', '9pnet_core']],
    ['license=GPL\0depends=\0', []],
    ['license=GPL\0softdepends=crc\0', []],
  ])('reads %j', (info, expected) => {
    expect(moduleDependencies(Buffer.from(`\x7fELF\0${info}`, 'latin1'))).toEqual(expected);
  });
});

describe('withoutSignature', () => {
  const signed = (content: string, signature: string, signatureBytes = signature.length): Buffer => {
    const info = Buffer.alloc(12);
    info.writeUInt32BE(signatureBytes, 8);
    return Buffer.concat([Buffer.from(content + signature), info, Buffer.from('~Module signature appended~\n')]);
  };

  it('returns only the module', () => {
    expect(withoutSignature(signed('module', 'signature')).toString()).toBe('module');
    expect(withoutSignature(Buffer.from('module')).toString()).toBe('module');
    expect(withoutSignature(Buffer.alloc(0)).length).toBe(0);
  });

  it('returns the bytes unchanged if the signature claims to be longer than they are', () => {
    const odd = signed('module', 'signature', 1_000);
    expect(withoutSignature(odd)).toEqual(odd);
  });
});

describe('orderModules', () => {
  const DEPENDENCIES: Readonly<Record<string, string>> = {
    bus: '',
    core: '',
    common: 'core',
    transport: 'common,core',
    other: 'core',
  };
  const read = (name: string): Promise<Buffer | null> => {
    const depends = DEPENDENCIES[name];
    return Promise.resolve(depends === undefined ? null : Buffer.from(`\x7fELF\0depends=${depends}\0`));
  };
  const order = async (...wanted: readonly (readonly [string, number | null])[]): Promise<unknown[]> => {
    const modules = await orderModules(
      wanted.map(([name, device]) => ({ name, device })),
      read,
    );
    return modules.map(({ name, device }) => [name, device]);
  };

  it('gives modules the device of the only one that depends on them, and skips those that are built in', async () => {
    expect(await order(['bus', null], ['transport', 19], ['builtin', 2])).toEqual([
      ['bus.ko', null],
      ['core.ko', 19],
      ['common.ko', 19],
      ['transport.ko', 19],
    ]);
  });

  it.each([9, null])('loads a module in each guest if another one for device %s depends on it too', async (device) => {
    expect(await order(['transport', 19], ['other', device])).toEqual([
      ['core.ko', null],
      ['common.ko', 19],
      ['transport.ko', 19],
      ['other.ko', device],
    ]);
  });
});
