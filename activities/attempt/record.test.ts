import { expect, test } from 'vitest';
import type { SandboxFacts } from '../ports/sandbox.ts';
import { isPrepared, markPrepared } from './record.ts';

const EXEC = 'a/0/1';
const LAUNCHED: SandboxFacts = {
  isolation: 'none',
  vmm: 'mock',
  accelerator: 'mock',
  kernel: 'none',
  jail: 'none',
  bootMs: 0,
  start: 'cold',
  snapshot: null,
  startNote: null,
  attached: false,
  vmLife: 'one',
  hadCommands: false,
  fence: 1,
};

const sandboxOf = (facts: SandboxFacts, started: readonly string[] = []) => ({
  facts,
  execs: () => Promise.resolve(started.map((key) => ({ key, isRunning: false }))),
});

test('files of an attempt count only for the VM that they were put into', async () => {
  const facts = { ...LAUNCHED };
  expect(await isPrepared(sandboxOf(facts), EXEC)).toBe(false);
  markPrepared(sandboxOf(facts), EXEC);
  expect(await isPrepared(sandboxOf(facts), EXEC)).toBe(true);
  expect(await isPrepared(sandboxOf(facts), 'a/0/2')).toBe(false);
  // A later VM with the same key.
  expect(await isPrepared(sandboxOf({ ...LAUNCHED }), EXEC)).toBe(false);
});

test('another process assumes the files exist once their command has started', async () => {
  const found = { ...LAUNCHED, attached: true, fence: 2 };
  expect(await isPrepared(sandboxOf(found), EXEC)).toBe(false);
  expect(await isPrepared(sandboxOf(found, [EXEC]), EXEC)).toBe(true);
  expect(await isPrepared(sandboxOf(found, [EXEC]), 'a/0/2')).toBe(false);
  expect(await isPrepared(sandboxOf(found, [`${EXEC}/2`]), EXEC)).toBe(false);
});
