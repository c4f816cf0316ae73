/** Checks that an image has what a guest needs of its root, and adds the rest. */
import { Buffer } from 'node:buffer';
import { open, readFile } from 'node:fs/promises';
import { type Blobs, OWN_FOLDERS } from './fill-tree.ts';
import { ImageError } from './image-error.ts';
import { type FileNode, type FolderNode, type ImageTree, createFolder } from './image-tree.ts';

/** The guest mounts over these folders: files of an image there are hidden, and a link there would lead elsewhere. */
const MOUNT_POINTS: readonly string[] = [...OWN_FOLDERS, 'tmp', 'var/tmp', 'workspace', 'home/sandbox'];
/** The folders into which the guest puts its own programs and those of agents. */
const NEEDED_FOLDERS: readonly string[] = ['etc', 'usr/lib', 'opt', 'mnt', 'root'];
const X86_64 = 62;
const PASSWD_BYTES = 1 << 20;
const SHELL = '/bin/sh';

/** @throws ImageError if a guest cannot work with the image */
export async function fitRoot(tree: ImageTree, blobs: Blobs): Promise<void> {
  await requireShell(tree, blobs);
  for (const path of NEEDED_FOLDERS) folderAt(tree.root, path);
  for (const path of MOUNT_POINTS) replaceByFolder(tree.root, path);
  await addUser(
    tree,
    blobs,
    'etc/passwd',
    'root:x:0:0:root:/root:/bin/sh\n',
    'sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n',
  );
  await addUser(tree, blobs, 'etc/group', 'root:x:0:\n', 'sandbox:x:1000:\n');
}

async function requireShell(tree: ImageTree, blobs: Blobs): Promise<void> {
  const found = tree.resolve(SHELL);
  if (found?.kind !== 'file' || (found.content.mode & 0o111) === 0) {
    const isArchive = ['manifest.json', 'oci-layout', 'repositories'].some((name) => tree.get(name)?.kind === 'file');
    throw new ImageError(
      `The image has no ${SHELL} that can be executed, which a guest needs.`,
      isArchive
        ? 'It is an archive of an image, as `docker save` makes it: unpack it with tar, and name the folder.'
        : 'Use an image with a shell, and name the folder or tar that holds its root: `bin`, `etc`, `usr`.',
    );
  }
  const handle = await open(blobs.path(found.content.blob));
  try {
    const header = Buffer.alloc(20);
    const { bytesRead } = await handle.read(header, 0, header.length, 0);
    const isElf = bytesRead === header.length && header.readUInt32BE(0) === 0x7f454c46;
    if (isElf && (header[5] !== 1 || header.readUInt16LE(18) !== X86_64))
      throw new ImageError(
        `${SHELL} of the image is for another processor than x86-64.`,
        'Use an image for linux/amd64.',
      );
  } finally {
    await handle.close();
  }
}

function folderAt(root: FolderNode, path: string): FolderNode {
  return path.split('/').reduce((folder, name) => {
    const found = folder.children.get(name);
    if (found?.kind === 'dir') return found;
    if (found !== undefined)
      throw new ImageError(
        `/${path} of the image is reached through a link or is a file, and a guest needs a folder there.`,
        'Use another image.',
      );
    const made = createFolder(0, 0o755);
    folder.children.set(name, made);
    return made;
  }, root);
}

function replaceByFolder(root: FolderNode, path: string): void {
  const names = path.split('/');
  const above = names.length === 1 ? root : folderAt(root, names.slice(0, -1).join('/'));
  above.children.set(names.at(-1)!, createFolder(0, 0o755));
}

/** Adds the user of commands if the image has no user with this id. */
async function addUser(tree: ImageTree, blobs: Blobs, path: string, otherwise: string, line: string): Promise<void> {
  const found = tree.get(path);
  if (found !== null && (found.kind !== 'file' || found.content.sizeBytes > PASSWD_BYTES)) return;
  const text = found === null ? otherwise : await readFile(blobs.path(found.content.blob), 'latin1');
  if (text.split('\n').some((each) => each.split(':')[2] === '1000' || each.startsWith('sandbox:'))) return;
  const bytes = Buffer.from(`${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}`, 'latin1');
  const content = await blobs.add(path, bytes.length, toStream(bytes));
  const node: FileNode = {
    kind: 'file',
    layer: 0,
    content: { ...content, mode: 0o644, modifiedS: found?.kind === 'file' ? found.content.modifiedS : 0 },
  };
  folderAt(tree.root, 'etc').children.set(path.slice('etc/'.length), node);
}

async function* toStream(bytes: Buffer): AsyncGenerator<Uint8Array, void, void> {
  yield bytes;
}
