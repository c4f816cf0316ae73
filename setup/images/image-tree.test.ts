import { describe, expect, test } from 'vitest';
import { ImageError } from './image-error.ts';
import { IMAGE_LIMITS, type ImageLimits } from './image-limits.ts';
import { type FolderNode, ImageTree } from './image-tree.ts';

const newTree = (limits: Partial<ImageLimits> = {}): ImageTree => new ImageTree({ ...IMAGE_LIMITS, ...limits });
const at = (path: string): { path: string; mode: number; modifiedS: number } => ({ path, mode: 0o755, modifiedS: 0 });

let blob = 0;
const file = (tree: ImageTree, path: string, layer = 1): void =>
  tree.addFile(at(path), { blob: ++blob, sizeBytes: 1 }, layer);

/** Lists all paths of a folder, and the targets of links. */
function listed(folder: FolderNode, above = ''): readonly string[] {
  return [...folder.children].flatMap(([name, node]) => {
    const path = `${above}${name}`;
    if (node.kind === 'dir') return [`${path}/`, ...listed(node, `${path}/`)];
    return [node.kind === 'symlink' ? `${path} -> ${node.target}` : path];
  });
}

describe('paths', () => {
  test('begin at the root of the image, and folders on the way are made', () => {
    const tree = newTree();
    for (const path of ['/a/b', './c', 'd//e/']) file(tree, path);
    expect(listed(tree.root)).toEqual(['a/', 'a/b', 'c', 'd/', 'd/e']);
  });

  test.each([
    '../x',
    'a/../../x',
    '/..',
    'a/\0',
    `${'n'.repeat(256)}`,
    Array.from({ length: 129 }, () => 'd').join('/'),
  ])('that lead outside or are invalid are rejected: %j', (path) => {
    expect(() => file(newTree(), path)).toThrow(ImageError);
  });

  test("through a link stay inside the image, whatever the link's target", () => {
    const tree = newTree();
    tree.addFolder(at('usr/lib'), 1);
    tree.addLink(at('lib'), 'usr/lib', 1);
    tree.addLink(at('out'), '../../../../etc', 1);
    tree.addLink(at('absolute'), '/usr', 1);
    for (const path of ['lib/x', 'out/passwd', 'absolute/y']) file(tree, path);
    expect(listed(tree.root)).toEqual([
      'usr/',
      'usr/lib/',
      'usr/lib/x',
      'usr/y',
      'lib -> usr/lib',
      'out -> ../../../../etc',
      'absolute -> /usr',
      'etc/',
      'etc/passwd',
    ]);
  });

  test('through links in a circle, or below a file, are rejected', () => {
    const tree = newTree();
    tree.addLink(at('a'), 'b', 1);
    tree.addLink(at('b'), 'a', 1);
    file(tree, 'f');
    expect(() => file(tree, 'a/x')).toThrow('too many links');
    expect(() => file(tree, 'f/x')).toThrow('which is a file');
    expect(tree.resolve('a')).toBeNull();
  });

  test('that become too long through links are rejected', () => {
    const tree = newTree();
    const long = Array.from({ length: 100 }, () => 'd'.repeat(20)).join('/');
    tree.addFolder(at(long), 1);
    tree.addLink(at('far'), long, 1);
    expect(() =>
      file(tree, `far/${'e'.repeat(200)}/${'f'.repeat(200)}/${'g'.repeat(200)}/${'h'.repeat(250)}/${'i'.repeat(250)}`),
    ).toThrow('bytes');
  });

  test('that become too deep through links are rejected', () => {
    const tree = newTree();
    const many = (name: string, count: number): string => Array.from({ length: count }, () => name).join('/');
    tree.addFolder(at(many('d', 128)), 1);
    tree.addLink(at('e'), many('d', 128), 1);
    tree.addFolder(at(`e/${many('x', 127)}`), 1);
    tree.addLink(at('g'), `e/${many('x', 127)}`, 1);
    expect(() => file(tree, 'g/a/b')).toThrow(/names|too deep/);
  });
});

describe('entries', () => {
  test('replace each other as a container runtime has it', () => {
    const tree = newTree();
    file(tree, 'a/x');
    tree.addFolder(at('a'), 2);
    file(tree, 'b/x');
    file(tree, 'b', 2);
    tree.addFolder(at('usr/lib'), 1);
    tree.addLink(at('lib'), 'usr/lib', 1);
    tree.addFolder(at('lib'), 2);
    expect(listed(tree.root)).toEqual(['a/', 'a/x', 'b', 'usr/', 'usr/lib/', 'lib/']);
  });

  test("that are hard links share the file's content, and cannot lead to anything but a file", () => {
    const tree = newTree();
    file(tree, 'a');
    tree.addHardLink('b', '/a', 1);
    tree.addFolder(at('d'), 1);
    expect(tree.get('b')).toMatchObject({ content: { blob } });
    for (const target of ['none', 'd', '../../etc/passwd', ''])
      expect(() => tree.addHardLink('c', target, 1), target).toThrow('hard link');
  });

  test('are counted, including parent folders and whiteouts', () => {
    const tree = newTree({ entries: 3 });
    file(tree, 'a/b/c');
    expect(() => tree.whiteOut('a', 2)).toThrow('more than 3 entries');
  });

  test('with an invalid target are rejected', () => {
    for (const target of ['', 'a\0b', 'x'.repeat(4_096)])
      expect(() => newTree().addLink(at('l'), target, 1)).toThrow(ImageError);
  });
});

describe('whiteouts', () => {
  test('remove entries of earlier layers, and none of their own layer', () => {
    const tree = newTree();
    for (const path of ['gone', 'kept', 'd/old', 'd/e/old']) file(tree, path);
    tree.whiteOut('gone', 2);
    tree.whiteOut('never', 2);
    file(tree, 'kept', 2);
    tree.whiteOut('kept', 2);
    file(tree, 'd/e/new', 2);
    tree.whiteOutAll('d', 2);
    expect(listed(tree.root)).toEqual(['kept', 'd/', 'd/e/', 'd/e/new']);
  });

  test('with a path outside of the image are rejected, and whiteouts of a file change nothing', () => {
    const tree = newTree();
    file(tree, 'a');
    expect(() => tree.whiteOut('../a', 2)).toThrow(ImageError);
    tree.whiteOutAll('a', 2);
    expect(listed(tree.root)).toEqual(['a']);
  });

  test('cannot cause unlimited work', () => {
    const tree = newTree({ entries: 100 });
    for (let index = 0; index < 60; index += 1) file(tree, `d/${index}`, 1);
    expect(() => {
      for (let index = 0; index < 38; index += 1) tree.whiteOutAll('d', 1);
    }).toThrow('again and again');
  });
});
