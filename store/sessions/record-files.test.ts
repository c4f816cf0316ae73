import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { createRecordFiles, readRecordFiles, sessionRecordsDir } from './record-files.ts';

let stateDir: string;

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-record-files-'));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function createRecord(turn: number): StepRecord {
  return { step: 'ask', turn, frame: 0, response: `a${turn}`, result: `a${turn}` };
}

/** Three files, each with two records. */
async function writeHistory(): Promise<string> {
  const files = createRecordFiles(stateDir, 'server');
  let previous: string | null = null;
  for (const turn of [1, 3, 5])
    previous = await files.write({ session: 's', previous, records: [createRecord(turn), createRecord(turn + 1)] });
  return previous!;
}

test('a history is read file by file, oldest first', async () => {
  const parts: number[][] = [];
  for await (const records of readRecordFiles(sessionRecordsDir(stateDir, 's'), await writeHistory()))
    parts.push(records.map(({ turn }) => turn));
  expect(parts).toEqual([
    [1, 2],
    [3, 4],
    [5, 6],
  ]);
});

test('a file that is missing is reported before any record', async () => {
  const ref = await writeHistory();
  const dir = sessionRecordsDir(stateDir, 's');
  const other = readdirSync(dir).find((name) => name.startsWith('records-') && !name.includes(ref))!;
  rmSync(join(dir, other));
  await expect(readRecordFiles(dir, ref).next()).rejects.toMatchObject({ code: 'store/io' });
  await expect(readRecordFiles(dir, '../x').next()).rejects.toMatchObject({ code: 'session/foreign' });
});
