/** Writes tar streams of entries that are in memory. */
import { Buffer } from 'node:buffer';
import { endMarker, paddingBytes, writeHeader } from './entry.ts';

export type TarItem =
  | { readonly kind: 'file'; readonly path: string; readonly mode: number; readonly body: Uint8Array }
  | { readonly kind: 'dir'; readonly path: string; readonly mode: number }
  | { readonly kind: 'symlink' | 'hardlink'; readonly path: string; readonly target: string }
  | { readonly kind: 'device'; readonly path: string; readonly major: number; readonly minor: number }
  | { readonly kind: 'fifo'; readonly path: string };

export async function* writeTar(items: Iterable<TarItem>): AsyncGenerator<Uint8Array, void, void> {
  for (const item of items) yield writeItem(item);
  yield endMarker();
}

function writeItem(item: TarItem): Buffer {
  const { path } = item;
  switch (item.kind) {
    case 'file':
      return Buffer.concat([
        writeHeader({ path, typeFlag: '0', mode: item.mode, sizeBytes: item.body.length }),
        item.body,
        Buffer.alloc(paddingBytes(item.body.length)),
      ]);
    case 'dir':
      return writeHeader({ path: `${path}/`, typeFlag: '5', mode: item.mode, sizeBytes: 0 });
    case 'symlink':
      return writeHeader({ path, typeFlag: '2', mode: 0o777, sizeBytes: 0, linkTarget: item.target });
    case 'hardlink':
      return writeHeader({ path, typeFlag: '1', mode: 0o644, sizeBytes: 0, linkTarget: item.target });
    case 'device':
      return writeHeader({ path, typeFlag: '3', mode: 0o666, sizeBytes: 0, device: [item.major, item.minor] });
    case 'fifo':
      return writeHeader({ path, typeFlag: '6', mode: 0o666, sizeBytes: 0 });
  }
}
