/** Decides where the uploads of a start are unpacked, and what a plan names instead of the paths of another machine. */
import { join } from 'node:path';
import { contains, findOverlappingPairs, resolveFrom } from '../../domain/language/text/paths.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import type { AgentSkill, MountSource, Plan, ScopePlan, StagePlan, WorkspaceSource } from '../../domain/plan/plan.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { shorten } from '../../domain/units/quote.ts';
import { AppError } from '../app-error.ts';

/** The most uploads of a start: each is open until it is unpacked. */
export const MOST_UPLOADS = 64;

/** The most bundles of a start: git reads each of them for up to minutes. */
export const MOST_BUNDLES = 8;

/** Longer paths would not fit below the folder of a run. */
const MOST_KEY_BYTES = 1_024;

/** Where uploads are whose paths lead out of the folder of the spec. */
const OUTSIDE = '.outside';

export interface PlacedUpload {
  /** As the request names it. */
  readonly key: string;
  readonly sha256: string;
  /** The path that the spec or the plan names, absolute. */
  readonly named: string;
  /** The absolute path of the folder into which the upload is unpacked. */
  readonly target: string;
}

export interface UploadPlaces {
  /** The folder where relative paths of the spec start, absolute. */
  readonly baseDir: string;
  readonly uploads: readonly PlacedUpload[];
  /** Repositories of workspaces. Absent: none. */
  readonly bundles?: readonly PlacedUpload[];
}

/**
 * An upload below the folder of the spec is unpacked where the spec finds it. Any other is unpacked beside it.
 * @param uploads  hashes by the paths of the request
 * @param folder  the empty folder of the start
 * @param baseDir  the folder of the spec on this machine; null: the folder of the start
 * @throws AppError `api/invalid-request`
 */
export function placeUploads(
  uploads: Readonly<Record<string, string>>,
  folder: string,
  baseDir: string | null,
): UploadPlaces {
  const specDir = baseDir ?? folder;
  const placed = Object.entries(uploads).map(([key, sha256], index) => {
    const named = key === '' || key.includes('\0') ? null : resolveFrom(specDir, key);
    if (named === null) throw createRefusal(`\`${shorten(key)}\` is not a path`);
    if (Buffer.byteLength(key) > MOST_KEY_BYTES || key.split('/').some((name) => Buffer.byteLength(name) > 255))
      throw createRefusal(`\`${shorten(key)}\` is too long`);
    const isBelow = baseDir === null && contains(folder, named) && !contains(join(folder, OUTSIDE), named);
    return { key, sha256, named, target: isBelow ? named : join(folder, OUTSIDE, String(index)) };
  });
  const [overlap] = findOverlappingPairs(placed.map(({ named }) => named));
  if (overlap !== undefined) {
    const [one, other] = overlap.map((index) => `\`${shorten(placed[index]!.key)}\``);
    throw createRefusal(`${one} and ${other} overlap`);
  }
  // An upload of the whole folder then cannot put something else in the place of others.
  return { baseDir: specDir, uploads: placed.toSorted((one, other) => other.target.length - one.target.length) };
}

/**
 * A bundle replaces the repository of workspaces that name exactly its path, so it may lie within an upload.
 * @param bundles  hashes by the paths of the request
 * @throws AppError `api/invalid-request`
 */
export function placeBundles(
  bundles: Readonly<Record<string, string>>,
  folder: string,
  baseDir: string | null,
): readonly PlacedUpload[] {
  const placed = Object.entries(bundles).map(([key, sha256], index) => {
    const named = key === '' || key.includes('\0') ? null : resolveFrom(baseDir ?? folder, key);
    if (named === null || Buffer.byteLength(key) > MOST_KEY_BYTES)
      throw createRefusal(`\`${shorten(key)}\` is not a path, or is too long`, 'bundles');
    return { key, sha256, named, target: join(folder, OUTSIDE, `bundle-${index}`) };
  });
  const names = new Set(placed.map(({ named }) => named));
  if (names.size < placed.length) throw createRefusal('two entries name the same path', 'bundles');
  return placed;
}

/** Returns the hashes of uploads and bundles by the folders into which they are unpacked. */
export function listHashes({ uploads, bundles = [] }: UploadPlaces): UploadHashes {
  return createMapping([...uploads, ...bundles].map(({ target, sha256 }) => [target, sha256]));
}

/** @throws AppError `api/invalid-request` */
export function refuseUploads(
  uploads: Readonly<Record<string, string>>,
  bundles: Readonly<Record<string, string>> = {},
): void {
  if (Object.keys(uploads).length > MOST_UPLOADS) throw createRefusal(`it has more than ${MOST_UPLOADS} entries`);
  if (Object.keys(bundles).length > MOST_BUNDLES)
    throw createRefusal(`it has more than ${MOST_BUNDLES} entries`, 'bundles');
}

function createRefusal(why: string, key: 'uploads' | 'bundles' = 'uploads'): AppError {
  return new AppError('usage', 'api/invalid-request', `\`${key}\`: ${why}`);
}

/** Returns the plan with the unpacked folders instead of the paths that the uploads replace, as paths of this host. */
export function movePlan(plan: Plan, places: UploadPlaces): Plan {
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => moveScope(scope, places)),
    stages: plan.stages.map((stage) => moveStage(stage, places)),
  };
}

function moveScope(scope: ScopePlan, places: UploadPlaces): ScopePlan {
  const { sandbox } = scope;
  const { needs, mounts } = sandbox;
  const image = needs?.image;
  return {
    ...scope,
    sandbox: {
      ...sandbox,
      mounts: mounts.map((mount) => ({ ...mount, source: moveSource(mount.source, places) })),
      ...(image === undefined || !image.startsWith('/') ? {} : { needs: { ...needs, image: movePath(image, places) } }),
    },
  };
}

function moveStage(stage: StagePlan, places: UploadPlaces): StagePlan {
  const { work, workspace } = stage;
  return {
    ...stage,
    ...(workspace?.from.kind === 'folder'
      ? { workspace: { ...workspace, from: moveRepository(workspace.from, places) } }
      : {}),
    ...(work.kind === 'agent' || work.kind === 'skill'
      ? { work: { ...work, skills: work.skills.map((skill) => moveSkill(skill, places)) } }
      : {}),
  };
}

type Repository = Extract<WorkspaceSource, { readonly kind: 'folder' }>;

/** A bundle has one commit, which the client chose by `ref`. */
function moveRepository(from: Repository, places: UploadPlaces): Repository {
  const full = resolveFrom(places.baseDir, from.source.path);
  const bundle = places.bundles?.find(({ named }) => named === full);
  if (bundle === undefined) return { ...from, source: moveSource(from.source, places) };
  return { ...from, source: { kind: 'host', path: bundle.target }, ref: null };
}

function moveSkill(skill: AgentSkill, places: UploadPlaces): AgentSkill {
  return skill.kind === 'file' ? { ...skill, source: moveSource(skill.source, places) } : skill;
}

function moveSource({ kind, path }: MountSource, places: UploadPlaces): MountSource {
  return { kind: 'host', path: movePath(kind === 'host' ? path : join(places.baseDir, path), places) };
}

function movePath(path: string, { baseDir, uploads }: UploadPlaces): string {
  const full = resolveFrom(baseDir, path) ?? path;
  const upload = uploads.find(({ named }) => contains(named, full));
  return upload === undefined ? path : join(upload.target, full.slice(upload.named.length));
}
