/** The list of VMs. The keeper is a script that knows only VMs that have ended. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { vmRunDir } from '../../native/index.ts';
import { vmsDir } from '../../store/state-folder.ts';
import { listVms } from './vm-list.ts';

let stateDir: string;
beforeEach(() => (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-vm-list-'))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

test.each([
  ['{"name":"qemu","program":"/q","accelerator":"tcg","bwrap":"/b"}', 'qemu tcg'],
  ['{"name":"vmm","program":"/v","bwrap":"/b"}', 'vmm kvm'],
  ['"qemu"', null],
])('a VM with the settings %s has the VMM %s', async (settings, vmm) => {
  const keeper = join(stateDir, 'voidbox-vm');
  writeFileSync(keeper, `#!/bin/sh\necho '{"state":"lost","pid":null,"fence":0,"exit":null}'\n`);
  chmodSync(keeper, 0o755);
  const dir = vmRunDir(vmsDir(stateDir), { runId: 'r', scope: 's', instance: [], generation: 0 });
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'intent.json'), `{"vmKey":"r/s/0","memoryMib":256,"vmm":${settings}}`);
  const [found] = await listVms(stateDir, () => Promise.resolve(keeper));
  expect(found).toMatchObject({ vmKey: 'r/s/0', state: 'lost', memoryMib: 256, vmm });
});
