/**
 * Writable mounts in real VMs, as a user meets them: files that stages left are on the host, and nothing else is lost
 * or changed.
 */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

interface Step {
  readonly name: string;
  readonly script: string;
  readonly more?: string;
}

function spec(steps: readonly Step[], { live = false } = {}): string {
  const list = steps.map(
    ({ name, script, more = '' }) =>
      `    - name: ${name}\n${more}      run: { program: sh, args: [-c, ${JSON.stringify(script)}] }\n`,
  );
  return `api_version: v1
kind: workflow
name: mounts
sandbox:
  memory_mb: 256
  mounts: [{ host: work, guest: /data, mode: rw }${live ? ', { host: live, guest: /live }' : ''}]
workflow:
  output_step: ${steps.at(-1)!.name}
  steps:
${list.join('')}`;
}

function makeWork(rig: Rig): string {
  const work = join(rig.specDir, 'work');
  // Removes the files of the previous test, too.
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'folder', 'inner'), { recursive: true });
  writeFileSync(join(work, 'kept'), 'kept');
  writeFileSync(join(work, 'file'), 'file');
  writeFileSync(join(work, 'program'), '#!/bin/sh\n');
  writeFileSync(join(work, 'folder', 'inner', 'f'), 'f');
  mkdirSync(join(work, 'second'));
  symlinkSync('kept', join(work, 'link'));
  return work;
}

function tree(folder: string, inside = ''): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(join(folder, inside)).sort()) {
    const path = join(inside, name);
    const stat = lstatSync(join(folder, path));
    if (stat.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(folder, path))}`;
    else if (stat.isDirectory()) Object.assign(found, { [`${path}/`]: '' }, tree(folder, path));
    else found[path] = readFileSync(join(folder, path), 'utf8');
  }
  return found;
}

const WAIT_FOR = (path: string): string =>
  `i=0; while [ ! -e ${path} ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done`;

test('steps that write side by side, read for long, are tried again and change what entries are', async () => {
  const rig = theRig();
  const work = makeWork(rig);
  const steps: readonly Step[] = [
    // Writes while the next step ends and copies back, and then reads its own file again.
    {
      name: 'slow',
      script: `echo half > /data/slow; echo begun; ${WAIT_FOR('/data/go')}; sleep 2; cat /data/slow; echo whole >> /data/slow`,
    },
    {
      name: 'types',
      script: `cd /data; ${WAIT_FOR('/data/slow')}; rm file; mkdir file; echo in > file/in; rm -r folder; echo now > folder; rm link; mkdir link; rm -r second; ln -s kept second; chmod 755 program; echo go > go`,
    },
    {
      name: 'again',
      more: '      depends_on: [slow, types]\n      retry: { max_attempts: 2, backoff_secs: 0 }\n',
      script: 'cd /data; echo try >> tries; [ $(wc -l < tries) -ge 2 ] && rm go && cat slow',
    },
  ];
  await rig.launch(rig.spec('spec.yaml', spec(steps)), 'side-by-side');
  const finished = await rig.finish('side-by-side');
  expect(finished.outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await rig.output('side-by-side', 'slow')).toBe('begun\nhalf\n');
  expect(tree(work)).toEqual({
    'file/': '',
    'file/in': 'in\n',
    folder: 'now\n',
    kept: 'kept',
    'link/': '',
    program: '#!/bin/sh\n',
    second: '-> kept',
    slow: 'half\nwhole\n',
    tries: 'try\ntry\n',
  });
  expect(lstatSync(join(work, 'program')).mode & 0o777).toBe(0o755);
});

test('a step that fails copies nothing back', async () => {
  const rig = theRig();
  const work = makeWork(rig);
  const before = tree(work);
  const result = await rig.cli(
    'run',
    rig.spec('spec.yaml', spec([{ name: 'fails', script: 'rm -r /data/*; echo x > /data/x; exit 3' }])),
    '--run-id',
    'fails',
  );
  expect(result.code).toBe(1);
  expect(tree(work)).toEqual(before);
});

test('a lost VM is followed by one that starts from the folder as it was', async () => {
  const rig = theRig();
  const work = makeWork(rig);
  const steps: readonly Step[] = [
    { name: 'first', script: 'echo line >> /data/kept' },
    {
      name: 'second',
      more: '      depends_on: [first]\n',
      script: 'echo more >> /data/kept; echo begun; sleep 6; cat /data/kept',
    },
  ];
  await rig.launch(rig.spec('spec.yaml', spec(steps)), 'lost');
  await rig.waitOutput('lost', 'second', 'begun');
  expect(readFileSync(join(work, 'kept'), 'utf8')).toBe('keptline\n');
  rig.kill((await rig.keeperOf('_shared')).pid);
  expect((await rig.finish('lost')).outcome.state).toBe('succeeded');
  expect((await rig.events('lost')).filter(({ body }) => body.type === 'vm-lost')).not.toHaveLength(0);
  expect(readFileSync(join(work, 'kept'), 'utf8')).toBe('keptline\nmore\n');
});

test('an entry that changed on the host during the step fails the step with its path, and stays; other edited entries stay too', async () => {
  const rig = theRig();
  const work = makeWork(rig);
  const steps: readonly Step[] = [
    {
      name: 'edit',
      script: `echo begun; ${WAIT_FOR('/live/go')}; echo of the step > /data/kept; echo new > /data/new`,
    },
  ];
  const live = join(rig.specDir, 'live');
  mkdirSync(live);
  await rig.launch(rig.spec('spec.yaml', spec(steps, { live: true })), 'edited');
  await rig.waitOutput('edited', 'edit', 'begun');
  writeFileSync(join(work, 'kept'), 'of the host');
  writeFileSync(join(work, 'file'), 'of the host');
  chmodSync(join(work, 'program'), 0o755);
  const before = tree(work);
  writeFileSync(join(live, 'go'), '');
  const { failure } = (await rig.finish('edited')).outcome;
  expect(failure).toMatchObject({
    code: 'stage/mount-conflict',
    message: expect.stringContaining(': kept also changed on the host') as string,
  });
  expect(tree(work)).toEqual(before);
});
