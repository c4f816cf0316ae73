import { expect, test } from 'vitest';
import { describeVmFacts, describeVmLimits } from './vm-facts.ts';

test('each fact stands by its name, unknown ones as a dash', () => {
  const facts = { isolation: 'microvm', vmm: 'qemu', accelerator: 'tcg', kernel: '6.12\u001b[31m', jail: null };
  expect(describeVmFacts(facts)).toBe('microvm, VMM qemu, accelerator tcg, kernel 6.12, jail -');
});

test.each([
  ['spec', 'microvm, VMM vmm by the spec, accelerator kvm, kernel debian, jail bwrap'],
  ['auto', 'microvm, VMM vmm by mode auto, accelerator kvm, kernel debian, jail bwrap'],
])('the text names %s as the chooser of the VMM', (chosenBy, expected) => {
  const facts = { isolation: 'microvm', vmm: 'vmm', chosenBy, accelerator: 'kvm', kernel: 'debian', jail: 'bwrap' };
  expect(describeVmFacts(facts)).toBe(expected);
});

test('the facts of the backend mock name that there is no VM', () => {
  const facts = { isolation: 'none', vmm: 'mock', accelerator: 'mock', kernel: 'none (mock)', jail: 'none' };
  expect(describeVmFacts(facts)).toBe('simulated, no VM');
});

test.each([
  [{ cpus: 2, memoryMib: 1024, note: null }, '2 CPUs, 1024 MiB'],
  [{ cpus: 1, memoryMib: null, note: 'no controller memory' }, '1 CPU'],
  [{ cpus: null, memoryMib: 640, note: 'no controller cpu' }, '640 MiB'],
  [{ cpus: null, memoryMib: null, note: 'not delegated' }, 'none'],
])('the limits %j have the text %s', (limits, expected) => {
  expect(describeVmLimits(limits)).toBe(expected);
});
