/** Images that a spec names, as the command line finds and refuses them. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeLayout } from '../rig/vms/oci-layout.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-images-')));
  for (const folder of ['spec', 'elsewhere/bin']) mkdirSync(join(dir, folder), { recursive: true });
  writeFileSync(join(dir, 'elsewhere/bin/sh'), '#!/x\n', { mode: 0o755 });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function type(...args: readonly string[]): Promise<Typed> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [BIN, ...args],
      { cwd: join(dir, 'spec'), env, timeout: 60_000 },
      (_, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

function spec(image: string, more = ''): string {
  writeFileSync(
    join(dir, 'spec/s.yaml'),
    `kind: workflow\nname: s\nsandbox: { image: ${JSON.stringify(image)}${more} }\nworkflow:\n  steps:\n    - { name: a, run: { program: echo, args: [hi] } }\n`,
  );
  return 's.yaml';
}

async function refusal(...args: readonly string[]): Promise<{ code: string; message: string; remedy: string }> {
  const { code, stderr } = await type('run', ...args, '--json');
  expect(code, stderr).toBe(2);
  // Nothing was started for it.
  expect(existsSync(join(dir, 'state'))).toBe(false);
  return (JSON.parse(stderr.trim().split('\n').at(-1)!) as { error: { code: string; message: string; remedy: string } })
    .error;
}

test('an image of a registry is not looked up, and the remedy shows how to get it', async () => {
  expect(await refusal(spec('alpine:3.20'))).toMatchObject({
    code: 'cli/image-missing',
    message: 's.yaml:3:19: the image "alpine:3.20" is a name in a registry, but Voidbox does not pull images',
    remedy: expect.stringContaining(
      'skopeo copy docker://alpine:3.20 oci:alpine-3.20 && voidbox run FILE --image alpine:3.20=alpine-3.20',
    ) as string,
  });
});

test('the name of an image is not the name of a folder next to the spec: paths begin with a dot', async () => {
  mkdirSync(join(dir, 'spec/rootfs'));
  expect((await refusal(spec('rootfs'))).remedy).toContain('image: ./rootfs');
});

test.each([
  ['./nothing', 'cli/image-missing', 'spec/nothing does not exist'],
  ['./nothing.tar.gz', 'cli/image-missing', 'spec/nothing.tar.gz does not exist'],
  ['../elsewhere', 'cli/image-refused', "/elsewhere is neither below the spec's folder nor allowed on this host"],
  ['/', 'cli/image-refused', "the image / is neither below the spec's folder"],
])('%s is refused with %s', async (image, code, message) => {
  expect(await refusal(spec(image))).toMatchObject({ code, message: expect.stringContaining(message) as string });
});

test('a link in the folder of the spec is no way out of it', async () => {
  symlinkSync(dir, join(dir, 'spec/up'));
  expect(await refusal(spec('./up/elsewhere'))).toMatchObject({
    code: 'cli/image-refused',
    message: expect.stringContaining(`spec/up/elsewhere, which leads to ${dir}/elsewhere, is`) as string,
  });
  symlinkSync(join(dir, 'elsewhere'), join(dir, 'spec/link'));
  expect(await refusal(spec('./link'))).toMatchObject({ code: 'cli/image-refused' });
});

test('what `--image` names is found wherever it is, and has to be an image', async () => {
  await writeLayout(join(dir, 'elsewhere/arm'), { layers: [[]], architecture: 'arm64' });
  expect(await refusal(spec('acme/tool@sha256:0'), '--image', 'acme/tool@sha256:0=../elsewhere/arm')).toMatchObject({
    code: 'cli/image-unfit',
    message: expect.stringContaining('is for "linux/arm64"') as string,
  });
  expect(await refusal(spec('a'), '--image', 'a=../elsewhere/none')).toMatchObject({ code: 'cli/image-missing' });
  const { code, stderr } = await type('run', spec('a'), '--image', 'a');
  expect(code).toBe(2);
  expect(stderr).toContain('It must be NAME=PATH');
});

test('`validate` says what `run` would refuse, with its place, and accepts the spec', async () => {
  const { code, stdout } = await type('validate', spec('../elsewhere'), '--json');
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    valid: true,
    unsupported: [],
    onThisHost: { refusedImages: [{ code: 'cli/image-refused', severity: 'warning', line: 3, column: 19 }] },
  });
  expect(JSON.parse((await type('validate', spec('dev'), '--json')).stdout)).toMatchObject({
    onThisHost: { refusedImages: [] },
  });
});

test('a VM that is simulated needs no image', async () => {
  const { stdout } = await type('validate', spec('alpine:3.20', ', mode: mock'), '--json');
  expect(JSON.parse(stdout)).toMatchObject({ unsupported: [], onThisHost: { refusedImages: [] } });
});
