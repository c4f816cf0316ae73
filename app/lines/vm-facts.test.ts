import { expect, test } from 'vitest';
import { describeVmFacts } from './vm-facts.ts';

test('each fact stands by its name, unknown ones as a dash', () => {
  const facts = { isolation: 'microvm', accelerator: 'tcg', kernel: '6.12\u001b[31m', jail: null };
  expect(describeVmFacts(facts)).toBe('microvm, accelerator tcg, kernel 6.12, jail -');
});

test('the facts of the backend mock name that there is no VM', () => {
  const facts = { isolation: 'none', accelerator: 'mock', kernel: 'none (mock)', jail: 'none' };
  expect(describeVmFacts(facts)).toBe('simulated, no VM');
});
