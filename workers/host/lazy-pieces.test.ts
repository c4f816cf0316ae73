import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { SetupError } from '../../setup/resolve.ts';
import { lazyExtras } from './lazy-pieces.ts';

test('a piece that only some VMs need is looked up until it is found, and then no more', async () => {
  const asked: string[] = [];
  const extra = lazyExtras(readEnvironment(), (_env, [name]) => {
    asked.push(name!);
    if (asked.length === 1) return Promise.reject(new SetupError('voidbox-vmm is missing', 'voidbox up --with vmm'));
    return Promise.resolve(new Map([[name!, `/cache/${name!}`]]));
  });
  await expect(extra('vmm')).rejects.toMatchObject({
    code: 'host/not-ready',
    message: 'voidbox-vmm is missing voidbox up --with vmm',
  });
  expect([await extra('vmm'), await extra('vmm'), await extra('dev')]).toEqual([
    '/cache/vmm',
    '/cache/vmm',
    '/cache/dev',
  ]);
  expect(asked).toEqual(['vmm', 'vmm', 'dev']);
});
