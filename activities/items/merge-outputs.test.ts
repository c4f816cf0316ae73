import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openStores } from '../../store/open-stores.ts';
import { mergeItems, mergeOutputs } from './merge-outputs.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';

async function* once(text: string): AsyncIterable<Uint8Array> {
  yield Buffer.from(text);
}

test.each<[readonly (readonly [string, string])[], unknown]>([
  [[], []],
  [[['a', '{"rows":1}']], [{ name: 'a', output: { rows: 1 } }]],
  [
    [
      ['a', 'plain "text"\n'],
      ['b', '7'],
    ],
    [
      { name: 'a', output: 'plain "text"\n' },
      { name: 'b', output: 7 },
    ],
  ],
])('%j is merged as JSON', async (outputs, merged) => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-merge-'));
  try {
    const { artifacts } = await openStores({ stateDir });
    const parts = [];
    for (const [name, text] of outputs) parts.push({ name, output: await artifacts.put(once(text), 'text/plain') });
    const bytes: Uint8Array[] = [];
    for await (const piece of artifacts.open(await mergeOutputs(artifacts, parts))) bytes.push(piece);
    expect(JSON.parse(Buffer.concat(bytes).toString('utf8'))).toEqual(merged);
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});

test('an empty output is not opened, because a list may have thousands of them', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-merge-'));
  try {
    const { artifacts } = await openStores({ stateDir });
    const output = await artifacts.put(once(''), 'text/plain');
    const opened: string[] = [];
    const counted: ArtifactStore = {
      ...artifacts,
      open(ref, offset) {
        opened.push(ref.sha256);
        return artifacts.open(ref, offset);
      },
    };
    const said = await artifacts.put(once('7'), 'text/plain');
    const items = [output, said, output].map((of, item) => ({ item: String(item), output: of }));
    const merged = await mergeItems(counted, items);
    expect(opened).toEqual([said.sha256]);
    const bytes: Uint8Array[] = [];
    for await (const piece of artifacts.open(merged)) bytes.push(piece);
    expect(JSON.parse(Buffer.concat(bytes).toString('utf8'))).toEqual([
      { item: 0, output: '' },
      { item: 1, output: 7 },
      { item: 2, output: '' },
    ]);
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});
