"""Stand-ins for the official archives, made of the installed film reviews: no network is needed."""

import csv
import io
import tarfile

import tokensel as ts


def rows():
    """The installed reviews as (label, text), both classes in turn."""
    corpus = ts.datasets.imdb(min_document_frequency=1000, keep_texts=True)
    half = len(corpus) // 2  # the negative reviews stand first
    return [(label, corpus.texts[i + half * (label > 0)]) for i in range(half) for label in (-1, 1)]


def yelp(folder, train, test):
    """Write ``yelp_review_polarity_csv.tgz`` into the folder, with one review more that holds no word."""
    folder.mkdir(exist_ok=True)
    path = folder / "yelp_review_polarity_csv.tgz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for part, reviews in (("train", train), ("test", test)):
            text = io.StringIO()
            table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
            table.writerows((1 if label < 0 else 2, review) for label, review in [*reviews, (-1, "?!")])
            data = text.getvalue().encode()
            member = tarfile.TarInfo(f"yelp_review_polarity_csv/{part}.csv")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def imdb(folder, train):
    """Write the unpacked official folder, with training reviews only."""
    for name in ("neg", "pos"):
        (folder / "aclImdb" / "train" / name).mkdir(parents=True)
    for i, (label, review) in enumerate(train):
        name = "neg" if label < 0 else "pos"
        (folder / "aclImdb" / "train" / name / f"{i}.txt").write_text(review, encoding="utf-8")
