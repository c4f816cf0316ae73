/** The names of skipped files that a save records. */
import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { createRedactor } from '../../domain/security/redactor.ts';
import { writeTar } from '../../tar/write.ts';
import type { Exec } from '../ports/sandbox.ts';
import { CHANGES_LIMITS, type ChangesContext, storeChanges } from './changes.ts';
import { REMOVED_NAME } from './scripts.ts';

const SECRET = 'sk-canary-0b7f21d94c6e';

async function toldOf(...leftOut: readonly string[]): Promise<readonly string[]> {
  const context = {
    stage: { workspace: { guestPath: '/workspace' } },
    ignored: { taken: [], leftOut: leftOut.map((name) => Buffer.from(name).toString('latin1')) },
    redactor: createRedactor([{ name: 'KEY', value: SECRET }]),
  } as unknown as ChangesContext;
  const removed = { kind: 'file', path: REMOVED_NAME, mode: 0o600, body: Buffer.alloc(0) } as const;
  const exec = { output: () => writeTar([removed]) } as unknown as Exec;
  const put = async (bytes: AsyncIterable<Uint8Array>) => {
    for await (const _ of bytes);
    return { sha256: '0', sizeBytes: 1, mediaType: 'application/x-tar' };
  };
  return (await storeChanges(context, exec, put, new AbortController().signal)).changes!.leftOut;
}

test('a name has a length limit, and its cut shows neither a part of a secret nor half a character', async () => {
  const { toldNameChars: most } = CHANGES_LIMITS;
  for (const before of [most - SECRET.length - 1, most - 12, most - 2, most - 1]) {
    const [name] = await toldOf(`${'x'.repeat(before)}${SECRET}${'y'.repeat(most)}`);
    expect(name).not.toContain('sk-');
    expect(name!.length).toBeLessThanOrEqual(most);
    const [signs] = await toldOf(`${'x'.repeat(before)}${'😀'.repeat(most)}`);
    expect(signs).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  }
});

test('a limited number of names is recorded, and short names are not cut', async () => {
  const { toldNames } = CHANGES_LIMITS;
  const names = Array.from({ length: toldNames + 1 }, (_, index) => `ü${index}`);
  expect(await toldOf(...names)).toEqual(names.slice(0, toldNames));
  expect(await toldOf(`a-${SECRET}-b`)).toEqual(['a-[redacted]-b']);
});
