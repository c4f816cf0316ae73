/** Reads an OCI layout: a folder of documents and layers, each named by its digest. It contacts no registry. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { ImageError } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';
import { openImageFile, readImageFile } from './image-source.ts';
import { unpackTar, verifyStream } from './unpack-archive.ts';

/** An index may name other indexes; no real layout is nested deeper than this. */
const MAX_NESTING = 3;
const MAX_NAMED = 8;
const PLATFORM = { os: 'linux', architecture: 'amd64' } as const;

export interface OciImage {
  /** SHA-256 of the manifest, which names all other parts. */
  readonly sha256: string;
  readonly layers: readonly string[];
  /** Variables in the image's configuration. */
  readonly env: Readonly<Record<string, string>>;
  /** Settings of its configuration that a guest ignores: `User node`. */
  readonly ignored: readonly string[];
}

type Document = Readonly<Record<string, unknown>>;

/** @throws ImageError */
export async function readOciLayout(path: string, limits: ImageLimits): Promise<OciImage> {
  const index = await readDocument(path, join(path, 'index.json'), limits);
  const { sha256, manifest } = await findManifest(path, index, limits);
  const layers = listOf(manifest['layers']).map((layer) => digestOf(layer, 'a layer'));
  if (layers.length === 0 || layers.length > limits.layers)
    throw createUnfitError(path, `has ${layers.length} layers; from 1 to ${limits.layers} are allowed`);
  const config = await readBlob(path, digestOf(manifest['config'], 'its configuration'), limits);
  const platform = `${textOf(config['os'])}/${textOf(config['architecture'])}`;
  if (platform !== `${PLATFORM.os}/${PLATFORM.architecture}`)
    throw createUnfitError(path, `is for ${JSON.stringify(platform)}, and guests are linux/amd64`);
  const said = isDocument(config['config']) ? config['config'] : {};
  return { sha256, layers, env: variablesOf(path, said['Env'], limits), ignored: ignoredOf(said) };
}

/** Yields the tar of a layer, and checks its digest at the end. */
export function readOciLayer(path: string, sha256: string, limits: ImageLimits): AsyncIterable<Uint8Array> {
  const what = `The layer ${sha256.slice(0, 12)} of ${path}`;
  return unpackTar(verifyStream(readImageFile(blobPath(path, sha256), path, limits), sha256, what), what, limits);
}

async function findManifest(
  path: string,
  index: Document,
  limits: ImageLimits,
  depth = 1,
): Promise<{ sha256: string; manifest: Document }> {
  const all = listOf(index['manifests']).filter(isDocument);
  const fitting = all.filter((one) => fitsPlatform(one['platform']));
  if (fitting.length !== 1)
    throw createUnfitError(
      path,
      fitting.length === 0
        ? `has no image for linux/amd64 among its ${all.length}`
        : `has ${fitting.length} images for linux/amd64${namesOf(fitting)}, and which one is meant is not said`,
    );
  const sha256 = digestOf(fitting[0], 'an image');
  const document = await readBlob(path, sha256, limits);
  if (!Array.isArray(document['manifests'])) return { sha256, manifest: document };
  if (depth >= MAX_NESTING) throw createUnfitError(path, `has an index within ${MAX_NESTING} others`);
  return await findManifest(path, document, limits, depth + 1);
}

/** An entry without a platform is checked by its configuration. Signatures of an image have the platform `unknown`. */
function fitsPlatform(platform: unknown): boolean {
  return (
    !isDocument(platform) || (platform['os'] === PLATFORM.os && platform['architecture'] === PLATFORM.architecture)
  );
}

function namesOf(descriptors: readonly Document[]): string {
  const names = descriptors.flatMap(({ annotations }) =>
    isDocument(annotations) && typeof annotations['org.opencontainers.image.ref.name'] === 'string'
      ? [annotations['org.opencontainers.image.ref.name'].slice(0, 80)]
      : [],
  );
  return names.length === 0
    ? ''
    : ` (${names
        .slice(0, MAX_NAMED)
        .map((name) => JSON.stringify(name))
        .join(', ')})`;
}

function variablesOf(path: string, env: unknown, limits: ImageLimits): Readonly<Record<string, string>> {
  const pairs = listOf(env).flatMap((one): (readonly [string, string])[] => {
    const equals = typeof one === 'string' ? one.indexOf('=') : -1;
    const [name, value] = [String(one).slice(0, Math.max(0, equals)), String(one).slice(equals + 1)];
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0'))
      throw createUnfitError(path, `has an invalid variable: ${JSON.stringify(String(one).slice(0, 80))}`);
    // The guest sets the home of programs and their proxy.
    return name === 'HOME' || name === 'USER' || /_proxy$/i.test(name) ? [] : [[name, value]];
  });
  const bytes = pairs.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);
  if (pairs.length > limits.variables || bytes > limits.variableBytes)
    throw createUnfitError(
      path,
      `has ${pairs.length} variables of ${bytes} bytes; at most ${limits.variables} of ${limits.variableBytes} bytes are allowed`,
    );
  return Object.fromEntries(pairs);
}

function ignoredOf(config: Document): readonly string[] {
  return ['User', 'WorkingDir', 'Entrypoint', 'Cmd'].filter((key) => {
    const value = config[key];
    return Array.isArray(value) ? value.length > 0 : typeof value === 'string' && value !== '' && value !== '/';
  });
}

async function readBlob(path: string, sha256: string, limits: ImageLimits): Promise<Document> {
  return await readDocument(path, blobPath(path, sha256), limits, sha256);
}

/** Reads a document. Errors never quote its text, because a link may lead to a file that was not meant. */
async function readDocument(
  root: string,
  file: string,
  { documentBytes }: ImageLimits,
  sha256?: string,
): Promise<Document> {
  const { handle } = await openImageFile(file, root, documentBytes);
  let bytes: Buffer;
  try {
    bytes = await handle.readFile();
  } finally {
    await handle.close();
  }
  const found = createHash('sha256').update(bytes).digest('hex');
  if (sha256 !== undefined && found !== sha256)
    throw new ImageError(`${file} is damaged: its SHA-256 is ${found}.`, 'Make or copy the OCI layout again.');
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    if (isDocument(value)) return value;
  } catch {
    // The error below reports it.
  }
  throw new ImageError(`${file} is not a JSON document of an OCI layout.`, 'Make the OCI layout again.');
}

function blobPath(path: string, sha256: string): string {
  return join(path, 'blobs', 'sha256', sha256);
}

function digestOf(descriptor: unknown, what: string): string {
  const digest = isDocument(descriptor) ? textOf(descriptor['digest']) : '';
  const [, sha256] = /^sha256:([0-9a-f]{64})$/.exec(digest) ?? [];
  if (sha256 !== undefined) return sha256;
  throw new ImageError(
    `The OCI layout names ${what} by ${JSON.stringify(digest.slice(0, 80))}, which is not a SHA-256.`,
    'Make the OCI layout again.',
  );
}

function createUnfitError(path: string, what: string): ImageError {
  return new ImageError(
    `The OCI layout ${path} ${what}.`,
    'Make one of one image: skopeo copy --override-arch amd64 docker://NAME oci:FOLDER',
  );
}

function isDocument(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
