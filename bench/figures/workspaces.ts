/** Measures the cost of a workspace: a repository into a guest, compared with the same files as a tar. */
import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { LaunchSpec, Sandbox, VmKey } from '../../activities/ports/sandbox.ts';
import { CHECKED_OUT_SCRIPT, gitFilesAt, UNPACK_SCRIPT, UNPACKED_FILES } from '../../activities/workspace/scripts.ts';
import { indexBase, type IndexedBase } from '../../git/base-bundle.ts';
import { writeCheckout } from '../../workers/checkout/tar.ts';
import { packRepository } from '../../git/pack-repository.ts';
import { withPrivateRepository } from '../../git/private-repository.ts';
import type { GitHost } from '../../git/run-git.ts';
import { createQemuBackend } from '../../sandbox/micro-vm/qemu/backend.ts';
import { readHostMemory } from '../../setup/machine/host-memory.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { planCheckout } from '../../workers/checkout/plan-checkout.ts';
import { lazyExtras } from '../../workers/host/lazy-pieces.ts';
import { type Arm, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { onIdleDisk } from '../vm.ts';
import type { Bench } from './bench.ts';

const never = new AbortController().signal;
const SPEC: LaunchSpec = {
  mode: 'qemu',
  isolation: 'microvm',
  memoryMib: 512,
  vcpus: 1,
  diskMib: 1024,
  mounts: [],
  image: { kind: 'dev' },
};
const FILES = 1_000;
const COMMITS = 20;

export async function workspaceFigure(bench: Bench): Promise<Figure> {
  await resolveOptionalPieces(bench.env, ['dev'], { install: true, onProgress: bench.say });
  const folder = makeRepository(bench);
  const tar = execFileSync('tar', ['-C', folder, '--exclude=.git', '-cf', '-', '.'], { maxBuffer: 1e9 });
  const host = { path: bench.env.path, home: null };
  const request = { folder, ref: null, includeDirty: false, mayRead: () => true };
  const { bundle } = await packRepository(host, request, bytesOf);
  const [indexed, planned] = await withPrivateRepository(host, async (repository) => {
    const base = await indexBase(host, repository, toStream(bundle), bytesOf);
    return [base, await planCheckout(host, repository, base.base)] as const;
  });
  if ('unfit' in planned) throw new Error(`the host cannot check out the repository of this figure: ${planned.unfit}`);
  const backend = createQemuBackend({
    vmsDir: join(bench.workDir, 'vms'),
    keeper: bench.pieces.keeper,
    pieces: () => Promise.resolve(bench.pieces),
    extra: lazyExtras(bench.env),
    hostMemoryMib: () => readHostMemory().totalMib,
  });
  const key: VmKey = { runId: `bench-${randomUUID()}`, scope: 'bench', instance: [], generation: 0 };
  const vm = await backend.launch(key, SPEC, never);
  try {
    const [files, repository, byGuest] = await interleave(
      [filesArm(vm, tar), repositoryArm(host, vm, bundle, indexed, planned.index), guestArm(vm, bundle, indexed)].map(
        (arm) => onIdleDisk(vm, arm),
      ),
      bench.rounds,
      bench.say,
    );
    const ratio = measurePairedRatio(repository!, files!, 'ms');
    return {
      title: '(l) A repository into a VM',
      method: `A repository with ${FILES} files of 4 KiB and ${COMMITS} commits as a workspace, until it is checked out, and the same files as a tar. They take turns in the dev image. Each begins when the guest has written all before it to its disk. The host packs it, indexes the pack and judges its names before, once for a run; that it makes the tar of files and objects counts. By git of the guest is how it is where the host cannot.`,
      rows: [
        { what: 'files as a tar', value: spread(files!.rounds.map(({ ms }) => ms)), unit: 'ms' },
        { what: 'the repository', value: spread(repository!.rounds.map(({ ms }) => ms)), unit: 'ms' },
        { what: 'the repository, by git of the guest', value: spread(byGuest!.rounds.map(({ ms }) => ms)), unit: 'ms' },
        { what: 'the repository against the files', value: ratio, unit: '×' },
      ],
      goals: [
        { what: 'the repository against the files', value: ratio.median, goal: '≤ 1.5 ×', met: ratio.median <= 1.5 },
      ],
    };
  } finally {
    await vm.stop();
    await backend.release(key);
  }
}

/** Creates a repository of text that compresses as well as usual text does. */
function makeRepository({ workDir }: Bench): string {
  const folder = join(workDir, 'repository');
  mkdirSync(folder);
  const git = (...args: string[]): void => {
    execFileSync('git', ['-c', 'user.name=bench', '-c', 'user.email=bench@localhost', ...args], { cwd: folder });
  };
  git('init', '-q', '-b', 'main');
  const words = readFileSync(new URL(import.meta.url), 'utf8').split(/\s+/);
  const text = (seed: number): string => {
    let line = '';
    for (let at = seed; line.length < 4_096; at = (at * 1_103_515_245 + 12_345) % 2_147_483_648)
      line += `${words[at % words.length]!}${at % 9 === 0 ? '\n' : ' '}`;
    return line;
  };
  for (let commit = 0; commit < COMMITS; commit++) {
    for (let file = commit; file < FILES; file += commit === 0 ? 1 : COMMITS) {
      mkdirSync(join(folder, `d${file % 25}`), { recursive: true });
      writeFileSync(join(folder, `d${file % 25}`, `f${file}.txt`), text(file + commit * FILES + 1));
    }
    git('add', '.');
    git('commit', '-qm', `commit ${commit}`);
  }
  return folder;
}

function filesArm(vm: Sandbox, tar: Buffer): Arm<'ms'> {
  return {
    name: 'files',
    async round() {
      const began = performance.now();
      await vm.putTar(`/workspace/files-${randomUUID()}`, toStream(tar), never);
      return { ms: performance.now() - began };
    },
  };
}

/** As a stage does. */
function repositoryArm(
  host: GitHost,
  vm: Sandbox,
  bundle: Buffer,
  { base, headerBytes, index }: IndexedBase<Buffer>,
  checkout: Buffer,
): Arm<'ms'> {
  const stored = (bytes: Buffer) => ({ sizeBytes: bytes.length, open: () => toStream(bytes) });
  return {
    name: 'repository',
    async round() {
      const folder = `/workspace/repository-${randomUUID()}`;
      const began = performance.now();
      const tar = writeCheckout(host, {
        pack: stored(bundle.subarray(headerBytes)),
        packIndex: stored(index),
        index: checkout,
        gitFiles: gitFilesAt(base),
        nowS: Math.floor(Date.now() / 1_000),
      });
      await vm.putTar(folder, tar, never);
      await runInGuest(vm, ['-c', CHECKED_OUT_SCRIPT]);
      const ms = performance.now() - began;
      await runInGuest(vm, ['-c', 'test -z "$(git -C "$1" status --porcelain)"', 'sh', folder]);
      return { ms };
    },
  };
}

function guestArm(vm: Sandbox, bundle: Buffer, indexed: IndexedBase<Buffer>): Arm<'ms'> {
  const pack = bundle.subarray(indexed.headerBytes);
  return {
    name: 'by git of the guest',
    async round() {
      const folder = `/workspace/repository-${randomUUID()}`;
      const began = performance.now();
      await vm.writeFile(`${folder}/${UNPACKED_FILES.pack}`, pack.length, toStream(pack), never);
      await vm.writeFile(`${folder}/${UNPACKED_FILES.index}`, indexed.index.length, toStream(indexed.index), never);
      await runInGuest(vm, ['-c', UNPACK_SCRIPT, 'sh', folder, indexed.base]);
      return { ms: performance.now() - began };
    },
  };
}

async function runInGuest(vm: Sandbox, args: readonly string[]): Promise<void> {
  const exec = await vm.exec(
    {
      key: randomUUID(),
      program: '/bin/sh',
      args,
      env: {},
      cwd: '/workspace',
      stdin: null,
      timeoutMs: 300_000,
      maxOutputBytes: 1024 * 1024,
    },
    never,
  );
  const { exitCode } = await exec.wait(never);
  if (exitCode !== 0) throw new Error(`git in the guest ended with ${exitCode}`);
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

async function bytesOf(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}
