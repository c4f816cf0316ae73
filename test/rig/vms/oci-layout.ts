/** OCI layouts and tars of a few files, as builders of containers write them. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readEnvironment } from '../../../setup/environment.ts';
import { makeContext, pieceSource } from '../../../setup/pieces/context.ts';
import { type TarItem, writeTar } from '../../../tar/write.ts';

export interface LayoutParts {
  readonly layers: readonly (readonly TarItem[] | Buffer)[];
  /** `config` of the image's configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly architecture?: string;
  /** Makes the index; absent: an index that names the image. */
  readonly index?: (manifest: Descriptor) => unknown;
}

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export async function tarOf(items: readonly TarItem[]): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of writeTar(items)) parts.push(part);
  return Buffer.concat(parts);
}

/** @returns the digest of the manifest */
export async function writeLayout(
  folder: string,
  { layers, config = {}, architecture = 'amd64', index }: LayoutParts,
): Promise<string> {
  mkdirSync(join(folder, 'blobs', 'sha256'), { recursive: true });
  const add = (bytes: Buffer, mediaType: string): Descriptor => {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(join(folder, 'blobs', 'sha256', sha256), bytes);
    return { mediaType, digest: `sha256:${sha256}`, size: bytes.length };
  };
  const addJson = (value: unknown, mediaType: string): Descriptor => add(Buffer.from(JSON.stringify(value)), mediaType);
  const blobs: Descriptor[] = [];
  for (const [number, layer] of layers.entries()) {
    const tar = Buffer.isBuffer(layer) ? layer : await tarOf(layer as readonly TarItem[]);
    const isPacked = number % 2 === 0;
    blobs.push(add(isPacked ? gzipSync(tar) : tar, `application/vnd.oci.image.layer.v1.tar${isPacked ? '+gzip' : ''}`));
  }
  const about = addJson(
    { os: 'linux', architecture, config, rootfs: { type: 'layers', diff_ids: [] } },
    'application/vnd.oci.image.config.v1+json',
  );
  const manifest = addJson(
    { schemaVersion: 2, config: about, layers: blobs },
    'application/vnd.oci.image.manifest.v1+json',
  );
  writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  writeFileSync(
    join(folder, 'index.json'),
    JSON.stringify(index?.(manifest) ?? { schemaVersion: 2, manifests: [manifest] }),
  );
  return manifest.digest;
}

/** A root that a guest can have: busybox of the machine, under the names of a few of its programs. */
export async function busyboxRoot(
  programs: readonly string[] = ['sh', 'cat', 'echo', 'ls', 'env', 'id', 'tr', 'stat'],
): Promise<readonly TarItem[]> {
  const { path } = await pieceSource(await makeContext(readEnvironment(), undefined), true)('busybox');
  return [
    { kind: 'dir', path: 'bin', mode: 0o755 },
    { kind: 'file', path: 'bin/busybox', mode: 0o755, body: readFileSync(path) },
    ...programs.map((name): TarItem => ({ kind: 'symlink', path: `bin/${name}`, target: 'busybox' })),
  ];
}
