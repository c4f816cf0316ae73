/**
 * Finds the images that a plan names on this machine, and replaces them with the hashes of their disks. Workers read no
 * image by its name.
 */
import { resolve } from 'node:path';
import type { Plan, SandboxPlan } from '../../domain/plan/plan.ts';
import { FileRefusal, resolveWithin } from '../../files/open-file.ts';
import type { Environment } from '../../setup/environment.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { type MountPlace, placeOfPath } from './load-spec.ts';
import { baseDirHint, findFromCwd } from './base-dir.ts';
import { listSpecRoots } from './spec-roots.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { quote } from '../../domain/units/quote.ts';

export const IMAGES_HELP = 'folders, tars and OCI layouts whose disks runs may use on this host, by their hash';

/** The places where images may be. */
export interface ImagePlaces {
  /** The spec's folder. */
  readonly baseDir: string;
  /** The values of `--image`, by the name in the spec; paths start at the working directory. */
  readonly given: Readonly<Record<string, string>>;
  /** Folders of `--allow-mounts`, absolute. */
  readonly allow: readonly string[];
  /** The place in the spec that names each image. */
  readonly named: ReadonlyMap<string, MountPlace>;
}

export interface RefusedImage {
  /** As in the plan: an absolute path, or a name. */
  readonly image: string;
  readonly code: 'cli/image-missing' | 'cli/image-refused' | 'cli/image-unfit';
  readonly message: string;
  readonly remedy: string;
}

/** Names and paths of the images that VMs of the plan need, each once. */
function imagesOf({ scopes }: Plan): readonly string[] {
  return [...new Set(scopes.flatMap(({ sandbox }) => imageOf(sandbox) ?? []))];
}

function imageOf({ mode, needs }: SandboxPlan): string | null {
  return mode === 'mock' ? null : (needs?.image ?? null);
}

/**
 * Returns the plans with hashes of disks instead of the images that the first plan needs.
 * @throws AppError `cli/image-missing`, `cli/image-refused`, `cli/image-unfit`
 */
export async function withImages(
  plans: readonly [Plan, Plan],
  places: ImagePlaces,
  context: Machine,
): Promise<{ readonly plans: readonly [Plan, Plan]; readonly images: readonly KnownImage[] }> {
  const known = new Map<string, KnownImage>();
  for (const image of imagesOf(plans[0])) {
    const found = await findKnownImage(image, places, context, 'whole');
    if ('code' in found) throw refusal(found, places);
    known.set(image, found.known!);
  }
  if (known.size === 0) return { plans, images: [] };
  const [first, second] = plans.map((plan) => replaceImages(plan, known)) as [Plan, Plan];
  return { plans: [first, second], images: [...new Map([...known.values()].map((one) => [one.sha256, one])).values()] };
}

/** @throws AppError `cli/image-unfit`, SetupError */
export async function makeDisks(
  images: readonly KnownImage[],
  env: Environment,
  onProgress: (line: string) => void,
): Promise<void> {
  if (images.length === 0) return;
  const { ImageError, makeImageDisks } = await import('../../setup/images/images.ts');
  try {
    await makeImageDisks(env, images, onProgress);
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    throw new AppError('usage', 'cli/image-unfit', error.message, error.remedy);
  }
}

/**
 * Makes the disks of `--images`, for runs that are started elsewhere.
 * @throws AppError `cli/image-missing`, `cli/image-unfit`
 */
export async function makeGivenImages(
  paths: readonly string[],
  { env, cwd }: Machine,
  onProgress: (line: string) => void,
): Promise<void> {
  if (paths.length === 0) return;
  const { ImageError, knowImage } = await import('../../setup/images/images.ts');
  const images: KnownImage[] = [];
  for (const path of paths) {
    try {
      images.push(await knowImage(resolve(cwd, path)));
    } catch (error) {
      if (!(error instanceof ImageError)) throw error;
      throw new AppError('usage', `cli/image-${error.why}`, error.message, error.remedy);
    }
  }
  await makeDisks(images, env, onProgress);
  for (const { path, sha256 } of images) onProgress(`the image ${path} is ${sha256}`);
}

/** Finds the images of the plan that `run` would refuse, as far as their names show it. */
export async function findRefusedImages(
  plan: Plan,
  places: ImagePlaces,
  context: Machine,
): Promise<readonly RefusedImage[]> {
  const found = await Promise.all(imagesOf(plan).map((image) => findKnownImage(image, places, context, 'name')));
  return found.flatMap((one) => ('code' in one ? [one] : []));
}

function refusal({ image, code, message, remedy }: RefusedImage, { named }: ImagePlaces): AppError {
  return new AppError('usage', code, `${placeOfPath(named, image)}${message}`, remedy);
}

async function findKnownImage(
  image: string,
  places: ImagePlaces,
  { env, cwd, confinedTo }: Machine,
  depth: 'whole' | 'name',
): Promise<{ readonly known: KnownImage | null } | RefusedImage> {
  const given = Object.hasOwn(places.given, image) ? resolve(cwd, places.given[image]!) : null;
  if (given === null && !image.startsWith('/')) return createUnnamedRefusal(image);
  const path = given ?? image;
  const { ImageError, imageKindAt, knowImage } = await import('../../setup/images/images.ts');
  try {
    const real = realPathOf(path);
    await imageKindAt(real);
    // The user typed a given path. A path in a spec may come from a stranger.
    if (given === null)
      resolveWithin(path, { roots: listSpecRoots(places.baseDir, places.allow, { env, confinedTo }) });
    return { known: depth === 'name' ? null : await knowImage(real) };
  } catch (error) {
    if (error instanceof FileRefusal && error.leadsTo !== null)
      return createElsewhereRefusal(image, error.leadsTo, places);
    if (!(error instanceof ImageError)) throw error;
    const fromCwd = error.why === 'missing' && given === null ? findFromCwd(path, places.baseDir, cwd) : null;
    if (fromCwd !== null)
      return {
        image,
        code: 'cli/image-missing',
        message: `${error.message}; it is only below the working directory: ${fromCwd}`,
        remedy: `Move it there, or ${baseDirHint(cwd)}`,
      };
    return { image, code: `cli/image-${error.why}`, message: error.message, remedy: error.remedy ?? '' };
  }
}

/** Returns the path itself if nothing exists there: the image is then missing. */
function realPathOf(path: string): string {
  try {
    return resolveWithin(path, { roots: null });
  } catch (error) {
    if (error instanceof FileRefusal) return path;
    throw error;
  }
}

function createUnnamedRefusal(image: string): RefusedImage {
  const folder = image.replace(/[^A-Za-z0-9.]+/g, '-').replace(/^[-.]+/, '') || 'image';
  return {
    image,
    code: 'cli/image-missing',
    message: `the image ${quote(image)} is a name in a registry, but Voidbox does not pull images`,
    remedy: `Copy it to an OCI layout and pass its path: skopeo copy docker://${quoteArgument(image)} oci:${folder} && voidbox run FILE --image ${quoteArgument(`${image}=${folder}`)}\nFor a folder or a tar, write its path: image: ./${folder}`,
  };
}

function createElsewhereRefusal(image: string, real: string, { baseDir }: ImagePlaces): RefusedImage {
  const leads = real === image ? '' : `, which leads to ${real},`;
  return {
    image,
    code: 'cli/image-refused',
    message: `the image ${image}${leads} is neither below the spec's folder nor allowed on this host`,
    remedy: `Move it below the spec's folder, ${baseDir}, or name it yourself: --image ${quoteArgument(`${image}=${real}`)}`,
  };
}

function replaceImages(plan: Plan, known: ReadonlyMap<string, KnownImage>): Plan {
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => {
      const found = known.get(scope.sandbox.needs?.image ?? '');
      if (found === undefined) return scope;
      const { needs: { image: _, ...needs } = {}, ...sandbox } = scope.sandbox;
      const left = Object.keys(needs).length === 0 ? {} : { needs };
      return { ...scope, sandbox: { ...sandbox, image: { kind: 'disk', sha256: found.sha256 }, ...left } };
    }),
  };
}
