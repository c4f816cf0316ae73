import { SANDBOX_DEFAULTS } from '../plan/defaults.ts';
import { type MountPlan, PLAN_LIMITS, type SandboxPlan } from '../plan/plan.ts';
import { MOUNT_MODE_DEFAULT } from './grammar/sandbox-table.ts';
import { contains, guestPathRefusal, mustStayWritable, normalizeAbsolute, resolveFrom } from './paths.ts';
import { sharesSource } from './mount-source.ts';
import type { Problems } from './problems.ts';
import type { MountSpec, SandboxSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';

/**
 * The sandbox of a scope: the spec's own, with what a step or box says over it; mounts of both.
 * @param baseDir  the folder that relative host paths start from; null when the spec has none
 */
export function compileSandbox(
  base: SandboxSpec | null,
  own: SandboxSpec | null,
  baseDir: string | null,
  problems: Problems,
): SandboxPlan {
  const mode = own?.mode ?? base?.mode ?? null;
  const isMock = mode?.value === 'mock';
  const isolation = own?.isolation ?? base?.isolation ?? null;
  if (isMock && isolation !== null && isolation.value !== 'none') {
    problems.error(
      'spec/isolation',
      isolation.at,
      `\`isolation: ${isolation.value}\` cannot be had with \`mode: mock\`, which isolates nothing`,
      'take `isolation` out, or write `mode: auto`',
    );
  }
  const mounts = [...(base?.mounts ?? []), ...(own?.mounts ?? [])];
  return {
    mode: mode?.value ?? SANDBOX_DEFAULTS.mode,
    isolation: isMock ? 'none' : (isolation?.value ?? SANDBOX_DEFAULTS.isolation),
    memoryMib: own?.memoryMib ?? base?.memoryMib ?? SANDBOX_DEFAULTS.memoryMib,
    vcpus: own?.vcpus ?? base?.vcpus ?? SANDBOX_DEFAULTS.vcpus,
    diskMib: own?.diskMib ?? base?.diskMib ?? SANDBOX_DEFAULTS.diskMib,
    mounts: compileMounts(mounts, baseDir, problems),
  };
}

function compileMounts(specs: readonly MountSpec[], baseDir: string | null, problems: Problems): readonly MountPlan[] {
  const over = specs[PLAN_LIMITS.mountsPerScope];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `a VM gets ${specs.length} mounts; it can have at most ${PLAN_LIMITS.mountsPerScope}`,
      'mount a folder that holds several',
    );
  const mounts: { plan: MountPlan; at: Position }[] = [];
  for (const spec of specs.slice(0, PLAN_LIMITS.mountsPerScope)) {
    const mode = spec.mode?.value ?? MOUNT_MODE_DEFAULT;
    const guestPath = compileGuestPath(spec.guestPath, 'a mount', problems);
    const hostPath = compileHostPath(spec.hostPath, baseDir, problems);
    if (guestPath === null || hostPath === null) continue;
    if (mode === 'ro' && mustStayWritable(guestPath)) {
      problems.error(
        'spec/bad-path',
        spec.guestPath.at,
        `a read-only mount lies on ${guestPath}, which stages must be able to write`,
        `mount it below, such as ${guestPath}/data`,
      );
      continue;
    }
    const plan: MountPlan = { source: { kind: 'host', path: hostPath }, guestPath, mode };
    for (const other of mounts) checkPair(other.plan, plan, spec.at, problems);
    mounts.push({ plan, at: spec.at });
  }
  return mounts.map(({ plan }) => plan);
}

function checkPair(first: MountPlan, second: MountPlan, at: Position, problems: Problems): void {
  if (contains(first.guestPath, second.guestPath) || contains(second.guestPath, first.guestPath)) {
    problems.error(
      'spec/path-conflict',
      at,
      `two mounts of a VM lie on or in each other: ${first.guestPath} and ${second.guestPath}`,
      'give each a folder of its own in the guest',
    );
  }
  const writes = first.mode === 'rw' || second.mode === 'rw';
  if (writes && sharesSource(first.source, second.source)) {
    problems.error(
      'spec/path-conflict',
      at,
      `a writable mount shares host files with another: ${first.source.path} and ${second.source.path}`,
      'mount only one of them, or both `ro`',
    );
  }
}

function compileHostPath(path: Located<string>, baseDir: string | null, problems: Problems): string | null {
  const refuse = (message: string, remedy: string): null => {
    problems.error('spec/bad-path', path.at, message, remedy);
    return null;
  };
  if (path.value === '') return refuse('the host path of a mount is empty', 'write a folder, `.` is that of the spec');
  if (path.value === '~' || path.value.startsWith('~/'))
    return refuse(
      `the host path ${quote(path.value)} of a mount begins with \`~\`, which is not expanded`,
      "write the path out, or relative to the spec's folder",
    );
  if (baseDir === null && !path.value.startsWith('/'))
    return refuse(
      `the host path ${quote(path.value)} of a mount is relative, and this spec comes without a folder`,
      'write an absolute path',
    );
  return (
    resolveFrom(baseDir ?? '/', path.value) ??
    refuse(`the host path ${quote(path.value)} of a mount climbs above the root`, 'write a path that exists')
  );
}

/** A normalized guest path outside of the guest's system; null, and reported, when it is none. */
export function compileGuestPath(path: Located<string>, what: string, problems: Problems): string | null {
  const normal = normalizeAbsolute(path.value);
  const refusal = normal === null ? null : guestPathRefusal(normal);
  if (normal === null) {
    const problem = path.value.startsWith('/') ? 'climbs above the root' : 'is not absolute';
    problems.error(
      'spec/bad-path',
      path.at,
      `the guest path ${quote(path.value)} of ${what} ${problem}`,
      `write it from the root, such as /workspace/${path.value.replace(/^[./]+/, '') || 'data'}`,
    );
  } else if (refusal !== null)
    problems.error(
      'spec/bad-path',
      path.at,
      `the guest path ${quote(path.value)} of ${what} is ${refusal}`,
      'use a folder of your own, such as /workspace/data or /data',
    );
  else return normal;
  return null;
}
