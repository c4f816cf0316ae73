/** Images that users name, from the command line to a guest. */
import { Buffer } from 'node:buffer';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import type { TarItem } from '../../tar/write.ts';
import { busyboxRoot, writeLayout } from '../rig/vms/oci-layout.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const LIMIT_MS = 240_000;
const text = (path: string, body: string): TarItem => ({ kind: 'file', path, mode: 0o644, body: Buffer.from(body) });

test(
  'a spec of Void-Box runs in the image that it names, brought as an OCI layout',
  { timeout: LIMIT_MS },
  async () => {
    const rig = theRig();
    // No disk of the cache has this list, and no mirror has the package: a run that asked for the dev image would fail.
    const config = join(rig.specDir, 'config');
    mkdirSync(join(config, 'voidbox'), { recursive: true });
    writeFileSync(join(config, 'voidbox/dev-packages'), 'no-such-package-of-debian\n');
    const spec = rig.spec(
      'workflow.yaml',
      readFileSync(join(findPackageRoot(), 'test/compat/void-box/specs/oci/workflow.yaml'), 'utf8'),
    );
    const layout = join(dirname(spec), 'alpine');
    await writeLayout(layout, { layers: [[...(await busyboxRoot()), text('etc/os-release', 'NAME="Alpine"\n')]] });
    const run = await rig.startWith({ XDG_CONFIG_HOME: config }, 'run', spec, '--image', `alpine:3.20=${layout}`).done;
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toBe('NAME="ALPINE"\n');
    expect(run.stderr).not.toContain('dev image');
  },
);

const SPEC = `kind: workflow
name: own
sandbox: { image: ./image, memory_mb: 192 }
workflow:
  output_step: look
  steps:
    - name: look
      env: { MINE: spec, BOTH: spec }
      run:
        program: sh
        args:
          - -c
          - |
            echo "$PATH $FROM_IMAGE $BOTH $MINE $HOME"
            tool; pwd; id -un
            ls /etc/removed 2>/dev/null || echo removed
            for path in /x /etc/x /bin/x /opt/x; do echo x 2>/dev/null > $path && echo written; done
            for path in /workspace /tmp /var/tmp /home/sandbox; do echo x > $path/x && echo writable; done
            unshare -Ur true && echo namespaces
            cat /proc/1/environ 2>/dev/null || echo hidden
`;

test(
  'a guest has the layers and variables of its image, and keeps all that it promises',
  { timeout: LIMIT_MS },
  async () => {
    const rig = theRig();
    const spec = rig.spec('own.yaml', SPEC);
    const layout = join(dirname(spec), 'image');
    const root = await busyboxRoot(['sh', 'cat', 'echo', 'ls', 'id', 'unshare', 'true', 'pwd']);
    const tool: TarItem = {
      kind: 'file',
      path: 'opt/tools/tool',
      mode: 0o755,
      body: Buffer.from('#!/bin/sh\necho tool\n'),
    };
    await writeLayout(layout, {
      layers: [[...root, text('etc/removed', 'x'), tool], [text('etc/.wh.removed', '')]],
      config: {
        Env: ['PATH=/opt/tools:/bin', 'FROM_IMAGE=image', 'BOTH=image', 'HOME=/root'],
        User: '0',
        WorkingDir: '/etc',
      },
    });
    const run = await rig.cli('run', spec, '--run-id', 'own');
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain('User, WorkingDir of the image are ignored');
    expect(run.stdout.split('\n')).toEqual([
      '/opt/tools:/bin image spec spec /home/sandbox',
      'tool',
      '/workspace',
      'sandbox',
      'removed',
      ...Array.from({ length: 4 }, () => 'writable'),
      'namespaces',
      'hidden',
      '',
    ]);
    // Only a hash travels and is recorded: neither the plan nor the history has a path of the image.
    const recorded = await rig.cli('inspect', 'own', '--json');
    expect(recorded.stdout).toMatch(/"image":\{"kind":"disk","sha256":"[0-9a-f]{64}"\}/);
    expect(recorded.stdout).not.toContain(layout);
  },
);
