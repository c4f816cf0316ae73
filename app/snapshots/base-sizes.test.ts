import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { listBaseSizes } from './base-sizes.ts';

function planOf(text: string): Plan {
  const { plan, diagnostics } = compileText(text, 'spec.yaml', { baseDir: '/home/ada' });
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

const box = (name: string, sandbox: string): string =>
  `    - { name: ${name}, sandbox: ${sandbox}, run: { program: "true" } }\n`;
const pipeline = (...boxes: readonly string[]): string =>
  `api_version: v1\nkind: pipeline\nname: sizes\npipeline:\n  output_box: a\n  boxes:\n${boxes.join('')}`;

test('VMs of equal memory, vCPUs, image, VMM and presence of read-only mounts have one size', () => {
  const plan = planOf(
    pipeline(
      box('a', '{ memory_mb: 256 }'),
      box('b', '{ memory_mb: 256, disk_mb: 2048, env: { A: b } }'),
      box('c', '{ memory_mb: 256, vcpus: 2 }'),
      box('d', '{ memory_mb: 256, image: dev }'),
      box('e', '{ memory_mb: 256, mounts: [{ host: in, guest: /in }] }'),
      box('f', '{ memory_mb: 256, mounts: [{ host: x, guest: /x }, { host: y, guest: /y }] }'),
      box('g', '{ memory_mb: 256, mounts: [{ host: out, guest: /out, mode: rw }] }'),
      box('h', '{ memory_mb: 256, mode: qemu }'),
      box('i', '{ memory_mb: 256, mode: vmm }'),
    ),
  );
  expect(listBaseSizes(plan)).toEqual({
    sizes: [
      { memoryMib: 256, vcpus: 1, hasMounts: false, mode: 'auto' },
      { memoryMib: 256, vcpus: 2, hasMounts: false, mode: 'auto' },
      { memoryMib: 256, vcpus: 1, hasMounts: false, mode: 'auto', image: { kind: 'dev' } },
      { memoryMib: 256, vcpus: 1, hasMounts: true, mode: 'auto' },
      { memoryMib: 256, vcpus: 1, hasMounts: false, mode: 'qemu' },
      { memoryMib: 256, vcpus: 1, hasMounts: false, mode: 'vmm' },
    ],
    bootingVms: 0,
  });
});

test('a VM that boots and a simulated VM have no size', () => {
  const plan = planOf(pipeline(box('a', '{ snapshot: none }'), box('b', '{ mode: mock }')));
  expect(listBaseSizes(plan)).toEqual({ sizes: [], bootingVms: 1 });
});

test('an agent brings the image and the mount of its command line', () => {
  const plan = planOf('api_version: v1\nkind: agent\nname: a\nllm: { provider: claude }\nagent: { prompt: hi }\n');
  expect(listBaseSizes(plan).sizes).toMatchObject([{ hasMounts: true, image: { kind: 'dev' } }]);
});
