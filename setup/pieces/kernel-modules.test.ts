import { describe, expect, it } from 'vitest';
import { moduleDependencies, withoutSignature } from './kernel-modules.ts';

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
