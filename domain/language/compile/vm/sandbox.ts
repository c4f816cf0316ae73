import { NATIVE_VMM_VCPUS, SANDBOX_DEFAULTS } from '../../../plan/defaults.ts';
import {
  type LlmPlan,
  type MountPlan,
  PLAN_LIMITS,
  RETENTION,
  type SandboxNeeds,
  type SandboxPlan,
} from '../../../plan/plan.ts';
import { compileEgress } from './egress.ts';
import { isOwnImage, MOUNT_MODE_DEFAULT } from '../../grammar/sandbox-table.ts';
import {
  contains,
  explainGuestPathRefusal,
  mustStayWritable,
  normalizeAbsolute,
  resolveFrom,
} from '../../text/paths.ts';
import { CHECKPOINT_NAME_RULE, isCheckpointName } from '../../../run/checkpoint.ts';
import { sharesSource } from '../../problems/mount-source.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { MountSpec, SandboxSpec } from '../../read/spec.ts';
import type { Located, Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

/** The contents of a VM, which decide the settings that the spec leaves out. */
export interface WithinVm {
  readonly memoryMib: number;
  /** The model of each agent in the VM. */
  readonly agents: readonly (LlmPlan | null)[];
  readonly hasWorkspace: boolean;
}

/**
 * Compiles the sandbox of a scope: the spec's settings, overridden by those of the step or box; the mounts of both.
 * @param baseDir  the folder from which relative host paths start; null if the spec has no folder
 * @param within  the contents of the VM
 */
export function compileSandbox(
  base: SandboxSpec | null,
  own: SandboxSpec | null,
  baseDir: string | null,
  { memoryMib, agents, hasWorkspace }: WithinVm,
  problems: Problems,
): SandboxPlan {
  const mode = own?.mode ?? base?.mode ?? null;
  const isMock = mode?.value === 'mock';
  const isolation = own?.isolation ?? base?.isolation ?? null;
  if (isMock && isolation !== null && isolation.value !== 'none') {
    problems.error(
      'spec/isolation',
      isolation.at,
      `\`isolation: ${isolation.value}\` is impossible with \`mode: mock\`, which isolates nothing`,
      'remove `isolation`, or write `mode: auto`',
    );
  }
  const vcpus = own?.vcpus ?? base?.vcpus ?? SANDBOX_DEFAULTS.vcpus;
  if (mode?.value === 'vmm' && vcpus > NATIVE_VMM_VCPUS) {
    problems.error(
      'spec/bad-value',
      mode.at,
      `\`vcpus: ${vcpus}\` is impossible with \`mode: vmm\`, whose VMs have at most ${NATIVE_VMM_VCPUS} CPUs`,
      `write \`vcpus: ${NATIVE_VMM_VCPUS}\`, or \`mode: qemu\``,
    );
  }
  const mounts = [...(base?.mounts ?? []), ...(own?.mounts ?? [])];
  return {
    mode: mode?.value ?? SANDBOX_DEFAULTS.mode,
    isolation: isMock ? 'none' : (isolation?.value ?? SANDBOX_DEFAULTS.isolation),
    memoryMib: own?.memoryMib ?? base?.memoryMib ?? memoryMib,
    vcpus,
    diskMib: own?.diskMib ?? base?.diskMib ?? SANDBOX_DEFAULTS.diskMib,
    mounts: compileMounts(mounts, baseDir, problems),
    ...compileImage(own?.image ?? base?.image ?? null, hasWorkspace && !isMock),
    ...compileEgress(base, own, agents, problems),
    ...compileKeep(base, own, problems),
    ...compileSnapshot(findSnapshot(base, own), problems),
    ...compileNeeds(base, own, baseDir, problems),
  };
}

function compileKeep(
  base: SandboxSpec | null,
  own: SandboxSpec | null,
  problems: Problems,
): Pick<SandboxPlan, 'keepOnFailureMs'> {
  const keep = own?.keep ?? base?.keep ?? null;
  const time = own?.keepMs ?? base?.keepMs ?? null;
  if (keep?.value === 'on-failure') return { keepOnFailureMs: time ?? RETENTION.defaultMs };
  const said = (own?.keepMs ?? null) === null ? base : own;
  if (time !== null && said !== null && keep === null)
    problems.warning(
      'spec/bad-value',
      said.at,
      '`keep_secs` without `keep: on-failure` has no effect: the VM ends with its stages',
      'add `keep: on-failure`, or remove it',
    );
  return {};
}

/**
 * Returns the image only if it is `dev`: any other image is in `needs` until `voidbox run` has made a disk of it. With
 * a workspace, `dev` is the default: without git, an agent can neither commit nor read the history.
 */
function compileImage(said: SandboxSpec['image'], hasWorkspace: boolean): Pick<SandboxPlan, 'image'> {
  const image = said?.value ?? (hasWorkspace ? 'dev' : 'base');
  return image === 'dev' ? { image: { kind: 'dev' } } : {};
}

/** Whether an image is a path; any other text is a name, even if a file of that name exists. */
export function isImagePath(text: string): boolean {
  return /^(?:\/|~\/|\.{1,2}(?:\/|$))/.test(text) || /\.(?:tar|tgz|tar\.(?:gz|zst))$/.test(text);
}

/** The value of `snapshot` for a VM that boots; it names no snapshot. */
const NO_SNAPSHOT = 'none';

function findSnapshot(base: SandboxSpec | null, own: SandboxSpec | null): SandboxSpec['snapshot'] {
  return own?.snapshot ?? base?.snapshot ?? null;
}

/** `none` sets how the VM starts; any other text names the prepared sandbox with whose disk it starts. */
function compileSnapshot(said: SandboxSpec['snapshot'], problems: Problems): Pick<SandboxPlan, 'start' | 'prepared'> {
  if (said === null || said.value === '') return {};
  if (said.value === NO_SNAPSHOT) return { start: 'cold' };
  if (isCheckpointName(said.value)) return { prepared: said.value };
  problems.error(
    'spec/bad-value',
    said.at,
    `\`snapshot\` is ${quote(said.value)}; a name of a prepared sandbox must have ${CHECKPOINT_NAME_RULE}`,
    'write a name or the beginning of an id that `voidbox snapshot list` shows, or `none` for a VM that boots',
  );
  return {};
}

/** Compiles settings that no VM of this build has. The plan contains them, and `run` rejects it. */
function compileNeeds(
  base: SandboxSpec | null,
  own: SandboxSpec | null,
  baseDir: string | null,
  problems: Problems,
): Pick<SandboxPlan, 'needs'> {
  const readImage = (): Partial<SandboxNeeds> => {
    const said = own?.image ?? base?.image ?? null;
    if (said === null || said.value === '' || isOwnImage(said.value)) return {};
    const isPath = isImagePath(said.value);
    const value = isPath ? compileHostPath(said, '`image`', baseDir, problems) : said.value;
    if (value === null) return {};
    if (value.length > PLAN_LIMITS.referenceCharacters)
      problems.error(
        'spec/too-large',
        said.at,
        `a name of an image has ${value.length} characters; at most ${PLAN_LIMITS.referenceCharacters} are allowed`,
        'write a shorter one',
      );
    return { image: value };
  };
  const file = (key: 'kernel' | 'initramfs'): Partial<SandboxNeeds> => {
    const said = own?.[key] ?? base?.[key] ?? null;
    const path = said === null ? null : compileHostPath(said, `\`${key}\``, baseDir, problems);
    return path === null ? {} : { [key]: path };
  };
  warnOfGuestImage(own?.guestImage ?? base?.guestImage ?? null, problems);
  const needs: SandboxNeeds = {
    ...readImage(),
    ...file('kernel'),
    ...file('initramfs'),
  };
  return Object.keys(needs).length === 0 ? {} : { needs };
}

/**
 * Warns of a guest image, which contains kernel and first root of Void-Box's guests. These speak another protocol, and
 * stages cannot see which kernel boots.
 */
function warnOfGuestImage(said: SandboxSpec['guestImage'], problems: Problems): void {
  if (said === null || said.value === '') return;
  problems.warning(
    'spec/unsupported',
    said.at,
    `\`guest_image\` ${quote(said.value)} has no effect: every VM boots Voidbox's own kernel and agent`,
    'remove it; `image` sets the content of the guest',
  );
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
    const hostPath = compileHostPath(spec.hostPath, 'a mount', baseDir, problems);
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
    if (spec.git?.value === 'writable' && mode === 'ro')
      problems.warning(
        'spec/bad-value',
        spec.git.at,
        '`git: writable` has no effect at a mount with `mode: ro`: a stage cannot write to it',
        'write `mode: rw`, or remove `git`',
      );
    const git = spec.git?.value === 'writable' && mode === 'rw' ? { git: 'writable' as const } : {};
    const plan: MountPlan = { source: { kind: 'host', path: hostPath }, guestPath, mode, ...git };
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
      `two mounts of a VM overlap: ${first.guestPath} and ${second.guestPath}`,
      'give each its own folder in the guest',
    );
  }
  const writes = first.mode === 'rw' || second.mode === 'rw';
  if (writes && sharesSource(first.source, second.source)) {
    problems.error(
      'spec/path-conflict',
      at,
      `a writable mount shares host files with another: ${first.source.path} and ${second.source.path}`,
      'mount only one of them, or both with `mode: ro`',
    );
  }
}

/** Returns an absolute path of the host; null if the path cannot be used, which is reported. */
export function compileHostPath(
  path: Located<string>,
  what: string,
  baseDir: string | null,
  problems: Problems,
): string | null {
  const refuse = (message: string, remedy: string): null => {
    problems.error('spec/bad-path', path.at, message, remedy);
    return null;
  };
  if (path.value === '')
    return refuse(`the host path of ${what} is empty`, 'write a path; `.` is the folder of the spec');
  if (path.value === '~' || path.value.startsWith('~/'))
    return refuse(
      `the host path ${quote(path.value)} of ${what} begins with \`~\`, which is not expanded`,
      "write the path out, or relative to the spec's folder",
    );
  if (baseDir === null && !path.value.startsWith('/'))
    return refuse(
      `the host path ${quote(path.value)} of ${what} is relative, and this spec comes without a folder`,
      'write an absolute path',
    );
  return (
    resolveFrom(baseDir ?? '/', path.value) ??
    refuse(`the host path ${quote(path.value)} of ${what} climbs above the root`, 'write a path that exists')
  );
}

/** Returns a normalized guest path outside of the guest's system; null if it is not valid, which is reported. */
export function compileGuestPath(path: Located<string>, what: string, problems: Problems): string | null {
  const normal = normalizeAbsolute(path.value);
  const refusal = normal === null ? null : explainGuestPathRefusal(normal);
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
      'use another folder, such as /workspace/data or /data',
    );
  else return normal;
  return null;
}
