import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createFileHostMarks } from '../store/file/run-records.ts';
import type { HostMarks } from './ports/host-marks.ts';
import type { SandboxFacts } from './ports/sandbox.ts';
import { isPrepared, markPrepared } from './stage-record.ts';

const KEY = { runId: 'r', scope: 'a', instance: [], generation: 0 };
const EXEC = 'a/0/1';
const LAUNCHED: SandboxFacts = {
  isolation: 'none',
  accelerator: 'mock',
  kernel: 'none',
  jail: 'none',
  bootMs: 0,
  attached: false,
  vmLife: 'one',
  hadCommands: false,
  fence: 1,
};

let dir: string;
let marks: HostMarks;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-marks-'));
  marks = createFileHostMarks(dir);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test('files of a command are in the VM that they were put into, for this process and for the next one', async () => {
  const facts = { ...LAUNCHED };
  expect(await isPrepared(marks, KEY, EXEC, facts)).toBe(false);
  await markPrepared(marks, KEY, EXEC, facts);
  expect(await isPrepared(marks, KEY, EXEC, facts)).toBe(true);
  expect(await isPrepared(marks, KEY, 'a/0/2', facts)).toBe(false);
  const found = { ...LAUNCHED, attached: true, fence: 2 };
  expect(await isPrepared(createFileHostMarks(dir), KEY, EXEC, found)).toBe(true);
  expect(await isPrepared(createFileHostMarks(dir), KEY, 'a/0/2', found)).toBe(false);
});

test('a mark is not of a later VM with the same key, whoever launched it', async () => {
  await markPrepared(marks, KEY, EXEC, { ...LAUNCHED });
  for (const attached of [false, true])
    expect(await isPrepared(marks, KEY, EXEC, { ...LAUNCHED, attached, vmLife: 'two' })).toBe(false);
});
